#include "graph_run.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>

#include "commands.h"
#include "kiln/client/npy.h"
#include "kiln/dsl/decimal.h"
#include "kiln/wire/files.h"
#include "kiln/wire/printable.h"
#include "load_program.h"

namespace kiln::cli {
namespace {

using dsl::ElementType;

struct Assignment {
  std::string name, value;
};

Result<Assignment> split_assignment(const std::string& flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid_argument(flag + " " + text + ": write NAME=VALUE");
  }
  return Assignment{text.substr(0, equals), text.substr(equals + 1)};
}

template <class Items>
std::string names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names.empty() ? "none" : join(names);
}

template <class Items>
Result<size_t> find_name(const std::string& flag, const std::string& name, const Items& items,
                         const std::string& what) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].name == name) return i;
  }
  return invalid_argument(flag + ": the graph has no " + what + " `" + name + "`; it has " + names_of(items));
}

Result<graph::Array> read_array(const std::string& path, const std::string& name, ElementType type) {
  auto file = client::read_npy(path);
  if (!file) return file.error();
  if (file->dtype != client::npy_dtype(type)) {
    return invalid_argument(path + " holds '" + file->dtype + "', but input `" + name + "` is " +
                            std::string(dsl::info(type).name) + " ('" + client::npy_dtype(type) + "')");
  }
  graph::Array out = graph::own(type, file->shape);
  if (file->bytes > 0) std::memcpy(out.storage->data(), file->data(), file->bytes);
  return out;
}

Result<graph::Array> scalar(const std::string& text, const std::string& name, ElementType type) {
  graph::Array out = graph::own(type, {});
  if (dsl::is_float(type)) {
    const auto bits = dsl::float_from_decimal(type, text);
    if (!bits) return invalid_argument("--input " + name + "=" + text + ": no number, and no @FILE.npy");
    graph::set_bits(out, 0, *bits);
    return out;
  }
  int64_t number = 0;
  uint64_t natural = 0;
  const char* end = text.data() + text.size();
  if (auto [at, status] = std::from_chars(text.data(), end, number);
      status == std::errc() && at == end && dsl::int_fits(type, number)) {
    graph::set_bits(out, 0, dsl::bits_from_int(type, number));
    return out;
  }
  if (auto [at, status] = std::from_chars(text.data(), end, natural);
      type == ElementType::kU64 && status == std::errc() && at == end) {
    graph::set_bits(out, 0, natural);
    return out;
  }
  return invalid_argument("--input " + name + "=" + text + ": no " + std::string(dsl::info(type).name) +
                          ", and no @FILE.npy");
}

// Inputs that the command line leaves out are the file's own.
Result<std::vector<graph::Array>> read_inputs(const Program& program, const std::vector<std::string>& texts) {
  const graph::Graph& graph = program.graph;
  const auto& inputs = graph.main().inputs;
  std::vector<graph::Array> out(inputs.size());
  std::vector<bool> given(inputs.size());
  for (const std::string& text : texts) {
    auto assignment = split_assignment("--input", text);
    if (!assignment) return assignment.error();
    auto place = find_name("--input " + text, assignment->name, inputs, "input");
    if (!place) return place.error();
    if (given[*place]) return invalid_argument("--input " + text + ": `" + assignment->name + "` is given twice");
    const graph::TensorType& type = graph.type(graph.main(), inputs[*place].value);
    const bool is_file = assignment->value[0] == '@';
    if (!is_file && type.rank() > 0) {
      return invalid_argument("--input " + text + ": `" + assignment->name + "` is " +
                              to_string(type, graph.expr_names()) + "; write " + assignment->name + "=@FILE.npy");
    }
    auto array = is_file ? read_array(assignment->value.substr(1), assignment->name, type.element)
                         : scalar(assignment->value, assignment->name, type.element);
    if (!array) return array.error();
    out[*place] = std::move(*array);
    given[*place] = true;
  }
  std::vector<std::string> missing;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given[i]) continue;
    if (const auto own = program.values.find(inputs[i].name); own != program.values.end()) {
      out[i] = borrowed(own->second);
    } else {
      missing.push_back(inputs[i].name + " (" +
                        to_string(graph.type(graph.main(), inputs[i].value), graph.expr_names()) + ")");
    }
  }
  if (!missing.empty()) return invalid_argument("graph `" + graph.main().name + "`: missing inputs: " + join(missing));
  return out;
}

// Files to write, by output; empty: to be printed.
Result<std::vector<std::string>> read_outputs(const graph::Graph& graph, const std::vector<std::string>& texts) {
  const auto& outputs = graph.main().outputs;
  std::vector<std::string> out(outputs.size());
  for (const std::string& text : texts) {
    auto assignment = split_assignment("--output", text);
    if (!assignment) return assignment.error();
    auto place = find_name("--output " + text, assignment->name, outputs, "output");
    if (!place) return place.error();
    if (assignment->value[0] != '@' || assignment->value.size() < 2) {
      return invalid_argument("--output " + text + ": write " + assignment->name + "=@FILE.npy");
    }
    if (!out[*place].empty()) return invalid_argument("--output " + text + ": given twice");
    out[*place] = assignment->value.substr(1);
    if (auto done = wire::check_writable(out[*place]); !done) return done.error();
  }
  return out;
}

Result<void> write_array(const std::string& path, const graph::Array& array) {
  auto file = client::NpyArray::make(array.shape, array.element);
  if (!file) return file.error();
  if (file->bytes > 0) std::memcpy(file->data(), array.data, file->bytes);
  return client::write_npy(path, *file);
}

std::string element_text(const graph::Array& array, int64_t place) {
  char text[64];
  std::to_chars_result end{text, {}};
  const dsl::ElementTypeInfo& type = dsl::info(array.element);
  if (array.element == ElementType::kF64) {
    end = std::to_chars(text, text + sizeof text, array.number(place));
  } else if (type.is_float) {
    end = std::to_chars(text, text + sizeof text, static_cast<float>(array.number(place)));
  } else if (type.is_signed) {
    const int shift = 64 - type.bits;
    end = std::to_chars(text, text + sizeof text, static_cast<int64_t>(array.bits(place) << shift) >> shift);
  } else {
    end = std::to_chars(text, text + sizeof text, array.bits(place));
  }
  return {text, end.ptr};
}

// Row-major places of an axis's parts, each of `size` elements; `indent` brackets are open.
void append_axis(std::string& out, const graph::Array& array, size_t axis, int64_t place, int64_t size, bool some) {
  if (axis == array.shape.size()) {
    out += element_text(array, place);
    return;
  }
  constexpr int64_t kEdge = 3;
  const int64_t extent = array.shape[axis];
  const bool last = axis + 1 == array.shape.size();
  const std::string between =
      last ? ", " : "," + std::string(array.shape.size() - axis - 1, '\n') + std::string(axis + 1, ' ');
  out += '[';
  for (int64_t i = 0; i < extent; ++i) {
    if (i > 0) out += between;
    if (some && extent > 2 * kEdge && i == kEdge) {
      out += "…" + between;
      i = extent - kEdge;
    }
    append_axis(out, array, axis + 1, place + i * (size / extent), size / extent, some);
  }
  out += ']';
}

// The weights that a file has stay, as inputs that --bind names do.
GraphTargetFlags with_weights(const Program& program, const GraphRunFlags& flags) {
  GraphTargetFlags out = flags.compiled;
  for (const std::string& name : program.weights) {
    const bool given =
        std::ranges::any_of(flags.inputs, [&](const std::string& text) { return text.starts_with(name + "="); });
    if (!given && std::ranges::find(out.bind, name) == out.bind.end()) out.bind.push_back(name);
  }
  return out;
}

template <class Items>
bool has_name(const Items& items, const std::string& name) {
  return std::ranges::any_of(items, [&](const auto& item) { return item.name == name; });
}

// "x=@x.npy y=@y.npy n=8": what they are, by what the graph has of their names.
void sort_arguments(const graph::Graph& graph, GraphRunFlags& flags) {
  for (const std::string& text : flags.arguments) {
    const std::string name = text.substr(0, text.find('='));
    if (has_name(graph.main().inputs, name)) {
      flags.inputs.push_back(text);
    } else if (has_name(graph.main().outputs, name)) {
      flags.outputs.push_back(text);
    } else {
      (has_name(graph.dims, name) ? flags.sizes : flags.inputs).push_back(text);
    }
  }
}

// By the evaluator, or compiled where a target is given.
Result<std::vector<graph::Array>> results_of(const Program& program, const std::vector<graph::Array>& inputs,
                                             const std::map<std::string, int64_t>& sizes, const GraphRunFlags& flags,
                                             const client::CompiledGraph* compiled) {
  const graph::Graph& graph = program.graph;
  if (flags.compiled.target.empty()) {
    if (!flags.compiled.bind.empty())
      return invalid_argument("--bind: inputs are bound of a compiled graph, by --target");
    if (flags.compiled.mode != "default")
      return invalid_argument("--mode: kernels are those of a compiled graph, by --target");
    const auto limit = static_cast<int64_t>(std::min<uint64_t>(flags.memory_bytes, uint64_t{1} << 62));
    return graph::evaluate(graph, inputs, sizes, {flags.check_indices, flags.wide, limit});
  }
  if (flags.wide) return invalid_argument("--wide: compiled graphs compute in the types that they have");
  return run_compiled(graph, inputs, sizes, flags.memory_bytes, with_weights(program, flags), compiled);
}

}  // namespace

Result<std::map<std::string, int64_t>> read_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> out;
  for (const std::string& text : texts) {
    auto assignment = split_assignment("--size", text);
    if (!assignment) return assignment.error();
    int64_t size = 0;
    const char* end = assignment->value.data() + assignment->value.size();
    const auto [at, status] = std::from_chars(assignment->value.data(), end, size);
    if (status != std::errc() || at != end) return invalid_argument("--size " + text + ": write NAME=NUMBER");
    if (!out.emplace(assignment->name, size).second) return invalid_argument("--size " + text + ": given twice");
  }
  return out;
}

std::string array_text(const graph::Array& array) {
  std::string out = std::string(dsl::info(array.element).name) + client::shape_text(array.shape) + "\n";
  append_axis(out, array, 0, 0, array.count(), array.count() > 1000);
  return out;
}

Result<void> run_graph(GraphRunFlags flags) {
  auto program = load_program(flags.file);
  if (!program) return program.error();
  return run_program(*program, std::move(flags), nullptr);
}

Result<void> run_program(const Program& program, GraphRunFlags flags, const client::CompiledGraph* compiled) {
  const graph::Graph& graph = program.graph;
  sort_arguments(graph, flags);
  auto inputs = read_inputs(program, flags.inputs);
  if (!inputs) return inputs.error();
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  auto files = read_outputs(graph, flags.outputs);
  if (!files) return files.error();
  auto results = results_of(program, *inputs, *sizes, flags, compiled);
  if (!results) return results.error();
  for (size_t i = 0; i < results->size(); ++i) {
    if (!(*files)[i].empty()) {
      if (auto done = write_array((*files)[i], (*results)[i]); !done) return done;
      continue;
    }
    std::printf("%s: %s\n", wire::printable(graph.main().outputs[i].name).c_str(), array_text((*results)[i]).c_str());
  }
  return {};
}

}  // namespace kiln::cli
