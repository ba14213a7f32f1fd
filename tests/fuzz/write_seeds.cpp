// fuzz-seeds OUT SOURCE: writes the seeds of all fuzz targets below OUT, one folder a target, and a dictionary for
// each.
//   text    the kernels of SOURCE/dsl/examples and SOURCE/tests/golden, the traced kernels, and each op's example
//   binary  those that are sound, in the three forms of binary_target.cpp
//   plan    requests for the plans of these graphs, in the forms of plan_target.cpp, and plans
//   graph_text, graph_binary   the graphs of SOURCE/tests/golden/graph, the traced ones, and each op's example
//   frame   one frame of each kind of message, and a cache entry
//   entry   cache entries
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

#include "../compilers/traced_graphs.h"
#include "../compilers/traced_kernels.h"
#include "../dsl/op_examples.h"
#include "../support/graph/op_examples.h"
#include "binary/binary_format.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/text.h"
#include "kiln/planner/plan_graph.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace {

namespace fs = std::filesystem;
using namespace kiln;
using Bytes = std::vector<std::byte>;

class Writer {
 public:
  explicit Writer(fs::path out) : out_(std::move(out)) {
    for (const char* target : {"text", "binary", "frame", "entry", "graph_text", "graph_binary", "plan"})
      fs::create_directories(out_ / target);
  }

  void text(const std::string& name, const std::string& text) {
    write("text/" + name, std::as_bytes(std::span(text)));
    const auto kernel = dsl::parse(text, name);
    if (kernel && dsl::verify(*kernel)) binary(name, *kernel);
  }

  void graph(const std::string& name, const std::string& text) {
    write("graph_text/" + name, std::as_bytes(std::span(text)));
    const auto graph = graph::parse(text, name);
    if (!graph) return;
    write("graph_binary/" + name, graph::encode(*graph));
    plan(name, *graph);
  }

  void frame(const std::string& name, wire::Type type, const std::string& text, std::span<const std::byte> body) {
    const auto header = wire::encode_header(
        {.type = type, .json_size = static_cast<uint32_t>(text.size()), .body_size = body.size(), .request_id = 7});
    Bytes out(header.begin(), header.end());
    append(out, std::as_bytes(std::span(text)));
    append(out, body);
    write("frame/" + name, out);
  }

  void entry(const std::string& name, std::span<const std::byte> bytes) { write("entry/" + name, bytes); }

  // libFuzzer's dictionaries: one quoted string a line.
  void dictionary(const std::string& target, const std::set<std::string>& words) {
    std::ofstream file(out_ / (target + ".dict"));
    for (const std::string& word : words) {
      file << '"';
      for (char c : word) file << (c == '"' || c == '\\' ? "\\" : "") << c;
      file << "\"\n";
    }
    if (!file.flush()) failed_ = true;
  }

  size_t count() const { return failed_ ? 0 : count_; }

 private:
  static void append(Bytes& out, std::span<const std::byte> more) { out.insert(out.end(), more.begin(), more.end()); }

  static void append_size(Bytes& out, size_t size) {
    for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(size >> shift & 0xff));
  }

  void binary(const std::string& name, const dsl::Kernel& kernel) {
    // As it stands: encode_kernel would drop what no store needs, in an op's example the op itself.
    Bytes blob = {std::byte{0}}, canonical, debug;
    dsl::CborWriter canonical_writer(canonical), debug_writer(debug);
    canonical_writer.array(dsl::kCanonicalFields);
    dsl::write_canonical_fields(kernel, canonical_writer);
    dsl::write_debug(kernel, debug_writer);
    for (const Bytes& section : {canonical, debug}) {
      append_size(blob, section.size());
      append(blob, section);
    }
    write("binary/" + name + ".kernel", blob);
    std::vector<dsl::ParamFact> facts;
    for (const dsl::Param& param : kernel.params) {
      const bool is_int = !param.type.pointer && dsl::is_int(param.type.element);
      facts.push_back(param.type.pointer ? dsl::ParamFact::kAlign16
                      : is_int           ? dsl::ParamFact::kMultiple16
                                         : dsl::ParamFact::kNone);
    }
    const auto request = dsl::encode_request(
        {.kernel = kernel, .target = "cpu:znver5", .constexprs = {}, .facts = facts, .emit = "asm"});
    if (!request) return;  // a constexpr without a default
    Bytes alone = {std::byte{1}}, both = {std::byte{2}};
    append(alone, request->canonical);
    write("binary/" + name + ".canonical", alone);
    append_size(both, request->canonical.size());
    append(both, request->canonical);
    append(both, request->debug);
    write("binary/" + name + ".request", both);
  }

  void plan(const std::string& name, const graph::Graph& graph) {
    constexpr size_t kMostBytes = 16'000;  // libFuzzer takes no more (flags)
    Bytes whole = {std::byte{0}}, alone = {std::byte{1}}, both = {std::byte{2}};
    if (const auto request = graph::encode_plan_request({graph, "cpu:znver5", {}})) {
      append(alone, request->canonical);
      append_size(both, request->canonical.size());
      append(both, request->canonical);
      append(both, request->debug);
      write("plan/" + name + ".canonical", alone);
      write("plan/" + name + ".request", both);
    }
    if (const auto plan = planner::plan_graph({graph, "interp", {}})) append(whole, graph::encode_plan(*plan));
    if (whole.size() > 1 && whole.size() < kMostBytes) write("plan/" + name + ".plan", whole);
  }

  void write(const std::string& name, std::span<const std::byte> bytes) {
    std::ofstream file(out_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) failed_ = true;
    ++count_;
  }

  fs::path out_;
  size_t count_ = 0;
  bool failed_ = false;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> words_of_the_language() {
  std::set<std::string> out = {"kernel",
                               "constexpr",
                               "space",
                               "grid",
                               "option",
                               "contract",
                               "true",
                               "false",
                               "readonly",
                               "may_alias",
                               "fuse_precision",
                               "deterministic",
                               "debug",
                               "check_bounds",
                               "tile<",
                               "descriptor<",
                               "else {",
                               "do (",
                               "ptr<",
                               "to",
                               "step",
                               "carry",
                               "inf",
                               "nan",
                               "0x",
                               "%",
                               "//",
                               "-",
                               "\"\\x0a\"",
                               "div(",
                               "rem(",
                               "min(",
                               "max(",
                               "eq(",
                               "ne(",
                               "lt(",
                               "le(",
                               " = "};
  for (const dsl::OpInfo& op : dsl::op_table()) {
    out.insert(op.name);
    for (const dsl::AttrInfo& attr : op.attrs) {
      out.insert(attr.name + " = ");
      out.insert(attr.values.begin(), attr.values.end());
    }
  }
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    out.insert(std::string(dsl::info(static_cast<dsl::ElementType>(i)).name));
  }
  return out;
}

std::set<std::string> words_of_graphs() {
  std::set<std::string> out = {"graph",  "body @",   "kernel @", "dim",       "multiple",   "..",      "donated to",
                               "output", "operands", "results",  "arguments", "gradient @", "operand", "result",
                               "code",   "llvm",     "ptx",      "amd",       "entry",      "file",    "threads",
                               "shared", "_",        "%",        "@",         "inf",        "nan"};
  for (const graph::OpInfo& op : graph::op_table()) {
    out.insert(op.name);
    for (const graph::AttrInfo& attr : op.attrs) {
      out.insert(attr.name + " = ");
      out.insert(attr.values.begin(), attr.values.end());
    }
  }
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    out.insert(std::string(dsl::info(static_cast<dsl::ElementType>(i)).name) + "[");
  }
  return out;
}

bool write_graphs(Writer& out, const fs::path& source) {
  for (const auto& entry : fs::directory_iterator(source / "tests/golden/graph")) {
    if (entry.path().extension() == ".kg") out.graph(entry.path().stem().string(), read_file(entry.path()));
  }
  for (const graph::OpInfo& op : graph::op_table()) out.graph("op_" + op.name, graph::example_graph(op.op));
  for (const auto& [name, traced] : compilers::traced_graphs()) {
    if (!traced.ir()) return std::cerr << name << ": " << traced.ir().error().message << "\n", false;
    out.graph(name, graph::print(*traced.ir()));
  }
  return true;
}

void write_frames(Writer& out) {
  const std::string code = "code", metadata = R"({"target": "cpu", "params": []})";
  const auto bytes = std::as_bytes(std::span(code));
  const auto entry = wire::encode_entry({.key = {},
                                         .builder_id = "b",
                                         .target_kind = "cpu",
                                         .metadata = metadata,
                                         .code = bytes,
                                         .record = "{}",
                                         .request = bytes,
                                         .created_ms = 1});
  const Bytes compile = {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{5}, std::byte{6}};
  out.frame("welcome", wire::Type::kWelcome, wire::to_text(wire::Welcome{}), {});
  out.frame("hello", wire::Type::kHello, wire::to_text(wire::Hello{.client_name = "c", .build_id = "b"}), {});
  out.frame("get", wire::Type::kGet, {}, Bytes(32));
  out.frame("compile", wire::Type::kCompile, wire::to_text(wire::CompileHeader{.deadline_ms = 5, .trace_id = "t"}),
            compile);
  if (entry) out.frame("result", wire::Type::kResult, {}, *entry);
  out.frame("error", wire::Type::kError, wire::to_text(invalid_argument("wrong")), {});
  out.frame("ping", wire::Type::kPing, {}, {});
}

// With all parts, and with as few as may be.
bool write_entries(Writer& out) {
  const std::string metadata = R"({"target": "cpu:x86-64-v3", "params": [{"name": "x"}], "entry": "k"})";
  const Bytes code(200, std::byte{0x90}), body = {std::byte{2}, {}, {}, {}, std::byte{5}, std::byte{6}, std::byte{7}};
  const auto full = wire::encode_entry({.key = {1, 2, 3},
                                        .builder_id = "builder",
                                        .target_kind = "cpu",
                                        .metadata = metadata,
                                        .code = code,
                                        .record = R"({"client": "c", "trace_id": "t", "phases": {"llvm": 1.5}})",
                                        .request = body,
                                        .created_ms = 1});
  const auto least = wire::encode_entry({.key = {}, .builder_id = "", .target_kind = "", .metadata = "", .code = {}});
  if (full) out.entry("full", *full);
  if (least) out.entry("least", *least);
  return full.ok() && least.ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: fuzz-seeds OUT SOURCE\n", 2;
  const fs::path source = argv[2];
  Writer out(argv[1]);
  for (const char* folder : {"dsl/examples", "tests/golden"}) {
    for (const auto& entry : fs::directory_iterator(source / folder)) {
      if (entry.path().extension() == ".kiln") {
        out.text(fs::path(folder).filename().string() + "_" + entry.path().stem().string(), read_file(entry.path()));
      }
    }
  }
  for (const auto& [name, ir] : compilers::traced_kernels()) {
    if (!ir) return std::cerr << name << ": " << ir.error().message << "\n", 1;
    out.text("traced_" + name, dsl::print(*ir));
  }
  for (const dsl::OpInfo& op : dsl::op_table()) out.text("op_" + op.name, dsl::testing::example_kernel(op));
  if (!write_graphs(out, source)) return 1;
  write_frames(out);
  if (!write_entries(out)) return std::cerr << "the entries could not be written\n", 1;

  const std::set<std::string> words = words_of_the_language();
  out.dictionary("text", words);
  out.dictionary("binary", {dsl::kCanonicalTag, dsl::kDebugTag, "asm", "llvm", "obj"});
  out.dictionary("graph_text", words_of_graphs());
  out.dictionary("graph_binary", {"kiln-graph-1", dsl::kCanonicalTag, dsl::kDebugTag});
  out.dictionary("plan", {"kiln-plan-2", "kiln-plan-request-2", "kiln-plan-debug-1", "kiln-graph-1"});
  out.dictionary("frame", {"KILN", "KNCE", "version", "client", "build_id", "want", "replace", "deadline_ms",
                           "priority", "background", "trace_id", "code", "message", "retryable", "min_version", "pid"});
  out.dictionary("entry", {"KNCE", "target", "params", "client", "trace_id", "phases", "{}", "[]"});
  if (out.count() < 50) return std::cerr << "the seeds could not be written\n", 1;
  std::cout << out.count() << " seeds, " << words.size() << " words\n";
}
