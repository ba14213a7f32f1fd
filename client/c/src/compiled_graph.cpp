// What is known of a compiled graph before it runs.
#include "arrays.h"
#include "errors.h"
#include "kiln/dsl/config.h"
#include "run_options.h"

namespace kiln::c {
namespace {

std::vector<CompiledGraphObject::Tensor> describe(const graph::Plan& plan,
                                                  const std::vector<graph::PlannedTensor>& tensors) {
  const dsl::ExprNames names{[&](uint32_t dim) { return plan.dims[dim].name; }, nullptr};
  std::vector<CompiledGraphObject::Tensor> out;
  for (const graph::PlannedTensor& tensor : tensors) {
    std::vector<int64_t> shape;
    for (const graph::Expr& extent : tensor.type.shape) shape.push_back(extent.as_constant().value_or(-1));
    out.push_back({to_string(tensor.type, names), std::move(shape)});
  }
  return out;
}

Result<void> show(const std::vector<graph::PlannedTensor>& tensors,
                  const std::vector<CompiledGraphObject::Tensor>& known, size_t index, const char* role,
                  kiln_tensor_info* info) {
  if (index >= tensors.size()) {
    return invalid_argument("there are " + std::to_string(tensors.size()) + " " + role + "s, and no " +
                            std::to_string(index));
  }
  const CompiledGraphObject::Tensor& here = known[index];
  *info = {tensors[index].name.c_str(), here.text.c_str(), here.shape.data(), static_cast<int32_t>(here.shape.size()),
           type_of(tensors[index].type.element)};
  return {};
}

// Of functions that give a number of a plan.
template <class T, class Get>
T number_of(kiln_compiled_graph* fn, T otherwise, Get&& get) {
  return guarded_value<T>(otherwise, [&](T& out) -> Result<void> {
    auto object = pin<CompiledGraphObject>(fn, "fn");
    if (!object) return object.error();
    out = get((*object)->fn.plan());
    return {};
  });
}

}  // namespace

CompiledGraphObject::CompiledGraphObject(CompiledGraph from)
    : fn(std::move(from)),
      place{device_of(dsl::target_family(fn.plan().target)), 0},
      inputs(describe(fn.plan(), fn.plan().inputs)),
      outputs(describe(fn.plan(), fn.plan().outputs)) {}

extern "C" {

size_t kiln_graph_input_count(kiln_compiled_graph* fn) {
  return number_of<size_t>(fn, 0, [](const graph::Plan& plan) { return plan.inputs.size(); });
}

size_t kiln_graph_output_count(kiln_compiled_graph* fn) {
  return number_of<size_t>(fn, 0, [](const graph::Plan& plan) { return plan.outputs.size(); });
}

size_t kiln_graph_launch_count(kiln_compiled_graph* fn) {
  return number_of<size_t>(fn, 0, [](const graph::Plan& plan) { return plan.launches.size(); });
}

const char* kiln_graph_target(kiln_compiled_graph* fn) {
  return number_of<const char*>(fn, nullptr, [](const graph::Plan& plan) { return plan.target.c_str(); });
}

int64_t kiln_graph_donor(kiln_compiled_graph* fn, size_t output) {
  return number_of<int64_t>(fn, -1, [&](const graph::Plan& plan) {
    if (output >= plan.in_place.size() || plan.in_place[output] == graph::kNone) return int64_t{-1};
    return int64_t{plan.in_place[output]};
  });
}

kiln_status kiln_graph_input(kiln_compiled_graph* fn, size_t index, kiln_tensor_info* info) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(info, "info"); !fine) return fine;
    auto object = pin<CompiledGraphObject>(fn, "fn");
    if (!object) return object.error();
    return show((*object)->fn.plan().inputs, (*object)->inputs, index, "input", info);
  });
}

kiln_status kiln_graph_output(kiln_compiled_graph* fn, size_t index, kiln_tensor_info* info) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(info, "info"); !fine) return fine;
    auto object = pin<CompiledGraphObject>(fn, "fn");
    if (!object) return object.error();
    return show((*object)->fn.plan().outputs, (*object)->outputs, index, "output", info);
  });
}

kiln_status kiln_graph_explain(kiln_compiled_graph* fn, const kiln_named_int* sizes, size_t size_count,
                               kiln_bytes** text) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(text, "text"); !fine) return fine;
    auto object = pin<CompiledGraphObject>(fn, "fn");
    if (!object) return object.error();
    auto known = named_ints(sizes, size_count, "sizes");
    if (!known) return known.error();
    give<BytesObject>(text, (*object)->fn.explain(*known));
    return {};
  });
}

kiln_status kiln_graph_memory_timeline(kiln_compiled_graph* fn, const kiln_named_int* sizes, size_t size_count,
                                       kiln_bytes** text) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(text, "text"); !fine) return fine;
    auto object = pin<CompiledGraphObject>(fn, "fn");
    if (!object) return object.error();
    auto known = named_ints(sizes, size_count, "sizes");
    if (!known) return known.error();
    auto drawn = (*object)->fn.memory_timeline(*known);
    if (!drawn) return drawn.error();
    give<BytesObject>(text, std::move(*drawn));
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
