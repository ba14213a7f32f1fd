// `kiln explain`: what is known of a compiled kernel, or why a request finds none.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "commands.h"
#include "differences.h"
#include "entries.h"
#include "kiln/client/connection.h"
#include "kiln/graph/plan.h"
#include "kiln/wire/json.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

void print_field(const char* name, const std::string& text) {
  std::printf("%-12s %s\n", name, wire::printable(text).c_str());
}

std::string time_text(uint64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm local{};
  char text[64];
  ::localtime_r(&seconds, &local);
  std::strftime(text, sizeof text, "%F %T %z", &local);
  return text;
}

std::string ms_text(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", ms);
  return text;
}

std::string phases_text(wire::Fields& record) {
  std::string out = ms_text(record.real("compile_ms")) + ", " + ms_text(record.real("queue_ms")) + " in the queue";
  for (const auto& [name, ms] : record.object("phases").items()) {
    if (ms.is_number()) out += ", " + name + " " + ms_text(ms.get<double>());
  }
  return out;
}

void print_request(const dsl::CompileRequest& request) {
  print_field("kernel", request.kernel.name);
  print_field("target", request.target);
  print_field("constexprs", constexprs_text(request));
  print_field("facts", facts_text(request));
  print_field("emit", request.emit);
}

void print_plan_request(const graph::PlanRequest& request) {
  print_field("graph", request.graph.main().name + ", " + std::to_string(request.graph.main().nodes.size()) + " nodes");
  print_field("target", request.target);
  print_field("fuse", request.options.fuse ? "yes" : "no");
  print_field("emit", graph::kPlanEmit);
}

Result<void> print_entry(const EntryFile& file) {
  auto entry = load_entry(file);
  if (!entry) return invalid_argument(file.path + ": " + entry.error().message);
  print_field("key", to_hex(file.key));
  print_field("file", file.path);
  if (const auto plan = plan_request_of(entry->view)) {
    print_plan_request(*plan);
  } else if (const auto request = request_of(entry->view)) {
    print_request(*request);
  } else {
    print_field("request", request.error().message);
  }
  auto record = wire::parse_object(entry->view.record);
  if (!record) return record.error();
  wire::Fields fields(*record);
  if (entry->is_crash()) {
    print_field("crash", "it killed its worker " + std::to_string(fields.number("attempts", 0, UINT32_MAX)) +
                             " times, last " + time_text(entry->view.created_ms) + ": " + fields.text("cause"));
  } else {
    print_field("code", std::to_string(entry->view.code.size()) + " bytes");
    print_field("compiled", time_text(entry->view.created_ms));
  }
  print_field("by", fields.text("builder"));
  print_field("for", fields.text("client") + ", trace id " + fields.text("trace_id"));
  print_field("took", phases_text(fields));
  if (entry->is_crash()) print_field("again", fields.text("reproduce"));
  return fields.ok() ? Result<void>() : invalid_argument(file.path + ": its record: " + fields.error().message);
}

struct Nearest {
  EntryFile file;
  std::vector<std::string> differences;
};

// The entry of a kernel of that name that differs in the fewest parts of its key.
Result<std::optional<Nearest>> nearest_entry(const std::string& root, const dsl::CompileRequest& request,
                                             const std::string& builder) {
  auto files = find_entries(root);
  if (!files) return files.error();
  std::optional<Nearest> best;
  for (const EntryFile& file : *files) {
    auto entry = load_entry(file);
    auto stored = entry ? request_of(entry->view) : Result<dsl::CompileRequest>(entry.error());
    if (!stored || stored->kernel.name != request.kernel.name) continue;
    Nearest candidate{file, differences(request, *stored)};
    auto record = wire::parse_object(entry->view.record);
    const std::string theirs = record ? wire::Fields(*record).text("builder") : "another";
    if (theirs != builder) candidate.differences.push_back("builder: " + builder + " here, " + theirs + " there");
    if (!best || candidate.differences.size() < best->differences.size()) best = std::move(candidate);
  }
  return best;
}

Result<void> explain_request(const ExplainFlags& flags, const std::string& root) {
  auto request = make_request(flags.kernel);
  if (!request) return request.error();
  request->emit = flags.emit;
  client::ConnectOptions options;
  options.client_name = "kiln explain";
  auto daemon = client::Connection::open(options);
  if (!daemon) return daemon.error();
  if (request->target == "cpu") request->target = (*daemon)->server().native_target;
  auto bytes = dsl::encode_request(*request);
  if (!bytes) return bytes.error();
  const std::string key = to_hex((*daemon)->key_of(*bytes));
  if (auto file = find_by_key(root, key)) return print_entry(*file);
  print_field("key", key);
  print_request(*request);
  std::printf("\nIt is not in %s.\n", wire::printable(root).c_str());
  auto nearest = nearest_entry(root, *request, (*daemon)->server().builder_id);
  if (!nearest) return nearest.error();
  if (!*nearest) {
    std::printf("Nor is any entry of a kernel `%s`.\n", wire::printable(request->kernel.name).c_str());
    return {};
  }
  std::printf("The nearest entry is %s. It differs in\n", to_hex((*nearest)->file.key).c_str());
  for (const std::string& difference : (*nearest)->differences)
    std::printf("  %s\n", wire::printable(difference).c_str());
  return {};
}

}  // namespace

Result<void> explain(const ExplainFlags& flags) {
  if (!flags.sizes.empty()) return explain_config(flags);
  auto root = cache_root(flags.cache_directory);
  if (!root) return root.error();
  if (!is_key(flags.kernel.file)) return explain_request(flags, *root);
  auto file = find_by_key(*root, flags.kernel.file);
  if (!file) return file.error();
  return print_entry(*file);
}

}  // namespace kiln::cli
