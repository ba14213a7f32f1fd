// What the command line says about a kernel: its file, constexprs, facts and grid.
#include <charconv>

#include "commands.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "kiln/target/gpu.h"
#include "kiln/wire/files.h"

namespace kiln::cli {
namespace {

Result<int64_t> parse_int(const std::string& text, const std::string& what) {
  int64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || text.empty()) {
    return invalid_argument(what + ": `" + text + "` is not an integer");
  }
  return value;
}

std::vector<std::string> constexpr_names(const dsl::Kernel& kernel) {
  std::vector<std::string> names;
  for (const dsl::Constexpr& item : kernel.constexprs) names.push_back(item.name);
  return names;
}

// "cuda" and "amd" as the device present; "cpu" is what the daemon says.
Result<std::string> resolve_target(const std::string& target) {
  const bool is_device = target == "cuda" || target == "amd";
  const bool is_known = target == "cpu" || is_device || target.starts_with("cpu:") || target.starts_with("cuda:") ||
                        target.starts_with("amd:");
  if (!is_known) {
    return invalid_argument("unknown target `" + target +
                            "`; `kiln compile` knows `cpu`, `cpu:NAME`, `cuda`, `cuda:NAME`, `amd` and `amd:NAME`");
  }
  if (auto known = target::check_gpu_target(target); !known) return known.error();
  if (!is_device) return target;
  auto present = client::devices(target);
  if (!present) return present.error();
  return present->front().target;
}

}  // namespace

Result<dsl::CompileRequest> make_request(const KernelFlags& flags) {
  auto kernel = load_kernel(flags.file);
  if (!kernel) return kernel.error();
  auto values = parse_sets(*kernel, flags.sets);
  if (!values) return values.error();
  auto facts = parse_facts(*kernel, flags.facts);
  if (!facts) return facts.error();
  auto target = resolve_target(flags.target);
  if (!target) return target.error();
  auto config = dsl::complete_constexprs(*kernel, *values, *target);
  if (!config) return config.error();
  return dsl::CompileRequest{*kernel, *target, *config, *facts};
}

std::string join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out.empty() ? "none" : out;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  size_t start = 0;
  for (size_t end; (end = text.find(separator, start)) != std::string::npos; start = end + 1) {
    out.push_back(text.substr(start, end - start));
  }
  out.push_back(text.substr(start));
  return out;
}

Result<dsl::Kernel> load_kernel(const std::string& file) {
  auto text = wire::read_text(file);
  if (!text) return text.error();
  auto kernel = dsl::parse(*text, file);
  if (!kernel) return kernel;
  if (auto valid = dsl::verify(*kernel); !valid) return valid.error();
  return kernel;
}

Result<dsl::ConstexprValues> parse_sets(const dsl::Kernel& kernel, const std::vector<std::string>& sets) {
  dsl::ConstexprValues values;
  for (const std::string& set : sets) {
    for (const std::string& item : split(set, ',')) {
      const size_t equals = item.find('=');
      const std::string name = item.substr(0, equals);
      if (equals == std::string::npos) return invalid_argument("--set " + item + ": write NAME=VALUE");
      if (!kernel.find_constexpr(name) && !dsl::is_schedule_option(name)) {
        return invalid_argument("--set " + item + ": kernel `" + kernel.name + "` has no constexpr `" + name +
                                "`; it has " + join(constexpr_names(kernel)));
      }
      const std::string text = item.substr(equals + 1);
      const auto named = target::parse_option_name(name, text);
      auto value = named ? Result<int64_t>(*named) : parse_int(text, "--set " + item);
      if (!value) return value.error();
      if (!values.emplace(name, *value).second) return invalid_argument("--set " + item + ": stated twice");
    }
  }
  return values;
}

Result<dsl::Facts> parse_facts(const dsl::Kernel& kernel, const std::string& text) {
  using dsl::ParamFact;
  dsl::Facts facts(kernel.params.size(), ParamFact::kNone);
  if (text.empty()) return facts;
  for (const std::string& item : split(text, ',')) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals), fact = equals == std::string::npos ? "" : item.substr(equals + 1);
    const auto index = kernel.find_param(name);
    if (!index)
      return invalid_argument("--facts " + item + ": kernel `" + kernel.name + "` has no parameter `" + name + "`");
    const dsl::Type& type = kernel.params[*index].type;
    const auto known = dsl::parse_fact(fact);
    if (!known || *known == ParamFact::kNone || !dsl::fits(*known, type)) {
      return invalid_argument("--facts " + item + ": `" + name + "` is " + to_string(type, kernel.expr_names()) +
                              "; write align16 for a pointer, x8, x16 or one for an int");
    }
    facts[*index] = *known;
  }
  return facts;
}

Result<std::optional<std::array<uint32_t, 3>>> parse_grid(const std::string& text) {
  if (text.empty()) return std::optional<std::array<uint32_t, 3>>();
  const std::vector<std::string> items = split(text, ',');
  if (items.size() > 3) return invalid_argument("--grid " + text + ": at most three extents, X,Y,Z");
  std::array<dsl::Expr, 3> grid = {dsl::Expr(1), dsl::Expr(1), dsl::Expr(1)};
  for (size_t axis = 0; axis < items.size(); ++axis) {
    auto extent = parse_int(items[axis], "--grid " + text);
    if (!extent) return extent.error();
    grid[axis] = dsl::Expr(*extent);
  }
  auto checked = dsl::evaluate_grid(grid, {});
  if (!checked) return invalid_argument("--grid " + text + ": " + checked.error().message);
  return std::optional(*checked);
}

}  // namespace kiln::cli
