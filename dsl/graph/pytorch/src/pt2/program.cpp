// read_exported_json: a program of the export schema with its signature.
#include <algorithm>
#include <set>

#include "kiln/graph/pt2.h"
#include "pt2/calls.h"
#include "pt2/names.h"

namespace kiln::graph {
namespace {

using namespace pt2;

constexpr int64_t kSchema = 8;

SymbolRanges ranges_of(const json& program) {
  SymbolRanges out;
  const json* constraints = field_if(program, "range_constraints");
  if (!constraints) return out;
  if (!constraints->is_object()) bad("`range_constraints` is no object");
  for (const auto& [name, range] : constraints->items()) {
    SymbolRange read;
    if (const json* low = field_if(range, "min_val")) read.low = std::max<int64_t>(0, integer(*low, "min_val"));
    if (const json* high = field_if(range, "max_val")) {
      read.high = std::min(DimInfo::kMost, integer(*high, "max_val"));
    }
    if (read.low > read.high) bad("size `" + name + "` has no values: " + range.dump());
    out[name] = read;
  }
  return out;
}

Sizes sizes_of(const json& program, const json& graph) {
  Sizes out{.ranges = ranges_of(program), .ints = {}};
  const json* values = field_if(graph, "sym_int_values");
  if (!values) return out;
  if (!values->is_object()) bad("`sym_int_values` is no object");
  for (const auto& [name, value] : values->items()) {
    try {
      out.ints[name] = size_of(value, out.ranges);
    } catch (const BadField& failed) {
      bad("size `" + name + "`: " + failed.what());
    }
  }
  return out;
}

AtenInput input_of(const std::string& name, const json& graph, const SymbolRanges& ranges) {
  const json* meta = field_if(field(graph, "tensor_values"), name.c_str());
  if (!meta) bad("the input `" + name + "` has no type");
  try {
    AtenInput out{.name = name, .element = element_type(field(*meta, "dtype")), .shape = {}, .donated_to = {}};
    for (const json& size : list(*meta, "sizes")) out.shape.push_back(size_of(size, ranges));
    return out;
  } catch (const BadField& failed) {
    bad("the input `" + name + "`: " + failed.what());
  }
}

// What the inputs are, by the signature.
void read_inputs(const json& module, const json& graph, const SymbolRanges& ranges, Pt2Model& model) {
  for (const json& spec : list(field(module, "signature"), "input_specs")) {
    const auto [tag, value] = tagged(spec);
    if (tag == "constant_input") continue;  // a number or text that the program was made for
    if (tag == "custom_obj" || tag == "token") bad("an input that is an object of the author's (`" + tag + "`)");
    if (tag == "user_input") {
      const auto [kind, argument] = tagged(field(value, "arg"));
      if (kind != "as_tensor") continue;  // a size, which the shapes or --size say
      const std::string& name = text_field(argument, "name");
      model.program.inputs.push_back(input_of(name, graph, ranges));
      model.inputs.push_back(name);
      continue;
    }
    const std::string& name = text_field(field(value, "arg"), "name");
    model.program.inputs.push_back(input_of(name, graph, ranges));
    model.weights.push_back({.input = name, .name = text_field(value, (tag + "_name").c_str()), .values = {}});
  }
  std::set<std::string_view> seen;
  for (const AtenInput& input : model.program.inputs) {
    if (!seen.insert(input.name).second) bad("the input `" + input.name + "` is there twice");
  }
}

// The input that a mutation gives a new value.
AtenInput& mutated(const std::string& tag, const json& value, Pt2Model& model) {
  std::string input;
  if (tag == "user_input_mutation") {
    input = text_field(value, "user_input_name");
  } else {
    const std::string& name = text_field(value, tag == "buffer_mutation" ? "buffer_name" : "parameter_name");
    const auto found = std::ranges::find(model.weights, name, &Pt2Weight::name);
    if (found == model.weights.end()) bad("there is no weight `" + name + "` to write to");
    input = found->input;
  }
  const auto found = std::ranges::find(model.program.inputs, input, &AtenInput::name);
  if (found == model.program.inputs.end()) bad("there is no input `" + input + "` to write to");
  return *found;
}

std::string result_tree(const json& module) {
  const json* calls = field_if(module, "module_call_graph");
  if (!calls || !calls->is_array() || calls->empty()) return {};
  const json* signature = field_if((*calls)[0], "signature");
  const json* tree = signature ? field_if(*signature, "out_spec") : nullptr;
  return tree && tree->is_string() ? tree->get<std::string>() : std::string();
}

void read_outputs(const json& module, Pt2Model& model) {
  std::vector<std::string> tensors;  // the caller's; "" of what is none
  for (const json& spec : list(field(module, "signature"), "output_specs")) {
    const auto [tag, value] = tagged(spec);
    if (tag == "token") bad("an output that is a token");
    if (tag == "user_output") {
      const auto [kind, argument] = tagged(field(value, "arg"));
      tensors.push_back(kind == "as_tensor" ? text_field(argument, "name") : std::string());
      continue;
    }
    const std::string& name = text_field(field(value, "arg"), "name");
    if (tag.ends_with("_mutation")) {
      AtenInput& input = mutated(tag, value, model);
      input.donated_to = input.name + "_next";
      model.states.push_back({input.name, input.donated_to});
      model.program.outputs.emplace_back(input.donated_to, name);
    } else {
      tensors.push_back(name);
    }
  }
  const std::vector<std::string> names = leaf_names(result_tree(module), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].empty()) continue;
    model.outputs.push_back(names[i]);
    model.program.outputs.emplace_back(names[i], tensors[i]);
  }
  if (model.program.outputs.empty()) bad("the program gives no tensor");
}

Pt2Model model_of(const json& program) {
  const int64_t major = integer(field(field(program, "schema_version"), "major"), "major");
  if (major != kSchema) {
    bad("is of export schema " + std::to_string(major) + ", and this reader knows " + std::to_string(kSchema) +
        ": save it again with PyTorch 2.5 or later");
  }
  const json& module = field(program, "graph_module");
  const json& graph = field(module, "graph");
  const Sizes sizes = sizes_of(program, graph);
  Pt2Model out;
  read_inputs(module, graph, sizes.ranges, out);
  out.program.calls = calls_of(graph, sizes);
  read_outputs(module, out);
  return out;
}

}  // namespace

Result<Pt2Model> read_exported_json(std::string_view text, std::string_view what) {
  const json program = json::parse(text, nullptr, false);
  if (program.is_discarded()) return invalid_argument(std::string(what) + ": is no JSON");
  try {
    return model_of(program);
  } catch (const std::exception& failed) {
    return invalid_argument(std::string(what) + ": " + failed.what());
  }
}

}  // namespace kiln::graph
