#include "pt2/calls.h"

#include <algorithm>

namespace kiln::graph::pt2 {
namespace {

constexpr int kMaxDepth = 32;

// "torch.ops.aten.add.Tensor" → "aten.add.Tensor"
std::string target_of(const json& node) {
  const std::string& target = text_field(node, "target");
  constexpr std::string_view kPrefix = "torch.ops.";
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
}

// Calls that other modes of PyTorch surround: what is inside is the program's.
bool is_wrapper(std::string_view target) {
  return target == "higher_order.wrap_with_set_grad_enabled" || target == "higher_order.wrap_with_autocast";
}

class Reader {
 public:
  explicit Reader(const Sizes& sizes) : sizes_(sizes) {}

  // The calls of a graph, the whole or part number `part`; `renamed` has its inputs and what its calls gave.
  void read(const json& graph, Renamed& renamed, int depth, int part) {
    if (depth > kMaxDepth) bad("parts inside of parts, deeper than " + std::to_string(kMaxDepth));
    for (const json& node : list(graph, "nodes")) {
      const std::string target = target_of(node);
      try {
        if (is_wrapper(target)) {
          inline_part(node, renamed, depth);
        } else {
          add(node, target, renamed, part);
        }
      } catch (const BadField& failed) {
        bad(where(node, target) + failed.what());
      }
    }
  }

  std::vector<AtenCall> calls;

 private:
  static std::string where(const json& node, const std::string& target) {
    const std::string at = place(node);
    return "call of " + target + (at.empty() ? "" : " at " + at) + ": ";
  }

  static std::string place(const json& node) {
    const json* metadata = field_if(node, "metadata");
    const json* trace = metadata && metadata->is_object() ? field_if(*metadata, "stack_trace") : nullptr;
    return trace && trace->is_string() ? place_of(trace->get_ref<const std::string&>()) : std::string();
  }

  // A result's name in the program: that of a part has its number, for parts repeat names.
  static std::string own_name(const std::string& name, Renamed& renamed, int part) {
    if (part == 0) return name;
    return renamed[name] = name + "_in_part_" + std::to_string(part);
  }

  void add(const json& node, const std::string& target, Renamed& renamed, int part) {
    const json& outputs = list(node, "outputs");
    if (!outputs.empty() && std::all_of(outputs.begin(), outputs.end(), is_symbolic)) return;  // sizes, which Dims say
    AtenCall call{.target = target, .arguments = {}, .results = {}, .place = place(node)};
    // What checks sizes has arguments that a graph cannot say, and gives nothing.
    const bool is_check = outputs.empty() && (target.starts_with("aten._assert") || target.starts_with("aten.sym_"));
    if (is_check) return;
    for (const json& input : list(node, "inputs")) {
      call.arguments.emplace_back(text_field(input, "name"), argument_of(field(input, "arg"), sizes_, renamed));
    }
    for (const json& output : outputs) add_results(output, call, renamed, part);
    calls.push_back(std::move(call));
  }

  void add_results(const json& output, AtenCall& call, Renamed& renamed, int part) {
    const auto [tag, value] = tagged(output);
    const auto named = [&](const json& tensor) {
      call.results.push_back(own_name(text_field(tensor, "name"), renamed, part));
    };
    if (tag == "as_tensor") return named(value);
    if (tag == "as_none") return call.results.emplace_back(), void();
    if (tag == "as_optional_tensor") return add_results(value, call, renamed, part);
    if (tag != "as_tensors" || !value.is_array()) bad("a result that is `" + tag + "`");
    for (const json& tensor : value) named(tensor);
  }

  void inline_part(const json& node, Renamed& renamed, int depth) {
    const json* part = nullptr;
    std::vector<std::string> given;
    for (const json& input : list(node, "inputs")) {
      const auto [tag, value] = tagged(field(input, "arg"));
      if (tag == "as_graph") part = &field(value, "graph");
      if (tag != "as_tensor" || !part) continue;
      given.push_back(std::get<AtenName>(argument_of(field(input, "arg"), sizes_, renamed).value).name);
    }
    if (!part) bad("the part that it runs is missing");
    Renamed inside;
    size_t i = 0;
    for (const json& input : list(*part, "inputs")) {
      const auto [tag, value] = tagged(input);
      if (tag != "as_tensor") continue;
      if (i == given.size()) bad("its part takes more tensors than there are");
      inside[text_field(value, "name")] = given[i++];
    }
    read(*part, inside, depth + 1, ++parts_);
    rename_results(list(node, "outputs"), list(*part, "outputs"), inside, renamed);
  }

  // The names outside of what a part gives.
  static void rename_results(const json& outside, const json& outputs, const Renamed& inside, Renamed& renamed) {
    std::vector<std::string> given;
    for (const json& output : outputs) {
      const auto [tag, value] = tagged(output);
      if (tag != "as_tensor") continue;
      const std::string& name = text_field(value, "name");
      const auto found = inside.find(name);
      if (found == inside.end()) bad("its part gives `" + name + "`, which is not there");
      given.push_back(found->second);
    }
    size_t i = 0;
    const auto take = [&](const json& tensor) {
      if (i == given.size()) bad("its part gives fewer tensors than it should");
      renamed[text_field(tensor, "name")] = given[i++];
    };
    for (const json& output : outside) {
      const auto [tag, value] = tagged(output);
      if (tag == "as_tensor") take(value);
      if (tag != "as_tensors") continue;
      for (const json& tensor : value) take(tensor);
    }
  }

  const Sizes& sizes_;
  int parts_ = 0;
};

}  // namespace

std::string place_of(std::string_view stack_trace) {
  std::string out;
  for (size_t at = 0; at < stack_trace.size();) {
    const size_t end = std::min(stack_trace.find('\n', at), stack_trace.size());
    const std::string_view line = stack_trace.substr(at, end - at);
    at = end + 1;
    const size_t file = line.find("File \""), close = line.find("\", line ");
    if (file == std::string_view::npos || close == std::string_view::npos || close < file) continue;
    const std::string_view path = line.substr(file + 6, close - file - 6);
    if (path.find("/torch/") != std::string_view::npos || path.starts_with("torch/")) continue;
    const std::string_view rest = line.substr(close + 8);
    const size_t comma = rest.find(", in ");
    out = std::string(path.substr(path.rfind('/') + 1)) + ":" + std::string(rest.substr(0, comma));
    if (comma != std::string_view::npos) out += " in " + std::string(rest.substr(comma + 5));
  }
  return out;
}

std::vector<AtenCall> calls_of(const json& graph, const Sizes& sizes) {
  Reader reader(sizes);
  Renamed renamed;
  reader.read(graph, renamed, 0, 0);
  return std::move(reader.calls);
}

}  // namespace kiln::graph::pt2
