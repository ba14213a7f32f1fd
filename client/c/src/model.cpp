// Models that PyTorch exported: their graphs with what a file has values of.
#include "errors.h"
#include "graph_options.h"
#include "objects.h"

namespace kiln::c {
namespace {

Result<ArrayView> value_of(const LoadedModel& model, const std::string& name) {
  if (const auto weight = model.weights.find(name); weight != model.weights.end()) return weight->second;
  if (const auto state = model.states.find(name); state != model.states.end()) return state->second.initial;
  return error(ErrorCode::kNotFound, "the model has no value of `" + name + "`");
}

}  // namespace

extern "C" {

kiln_status kiln_model_open(const char* path, const char* name, kiln_model** model) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    if (auto fine = check_pointer(model, "model"); !fine) return fine;
    auto loaded = load_pt2(path, text_or(name, ""));
    if (!loaded) return loaded.error();
    give<ModelObject>(model, std::move(*loaded));
    return {};
  });
}

kiln_status kiln_model_graph(kiln_model* model, kiln_graph** graph) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(graph, "graph"); !fine) return fine;
    auto object = pin<ModelObject>(model, "model");
    if (!object) return object.error();
    give<GraphObject>(graph, (*object)->model.graph);
    return {};
  });
}

size_t kiln_model_state_count(kiln_model* model) {
  return guarded_value<size_t>(0, [&](size_t& out) -> Result<void> {
    auto object = pin<ModelObject>(model, "model");
    if (!object) return object.error();
    out = (*object)->model.states.size();
    return {};
  });
}

const char* kiln_model_state(kiln_model* model, size_t index) {
  return guarded_value<const char*>(nullptr, [&](const char*& out) -> Result<void> {
    auto object = pin<ModelObject>(model, "model");
    if (!object) return object.error();
    const auto& states = (*object)->model.states;
    if (index < states.size()) out = std::next(states.begin(), static_cast<ptrdiff_t>(index))->first.c_str();
    return {};
  });
}

kiln_status kiln_model_value(kiln_model* model, const char* input, kiln_tensor** tensor) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(input, "input"); !fine) return fine;
    if (auto fine = check_pointer(tensor, "tensor"); !fine) return fine;
    auto object = pin<ModelObject>(model, "model");
    if (!object) return object.error();
    auto value = value_of((*object)->model, input);
    if (!value) return value.error();
    give<TensorObject>(tensor, std::move(*value), Place{});
    return {};
  });
}

kiln_status kiln_model_compile(kiln_client* client, kiln_model* model, const kiln_graph_options* options,
                               kiln_compiled_graph** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    auto with = pin<ClientObject>(client, "client");
    if (!with) return with.error();
    auto what = pin<ModelObject>(model, "model");
    if (!what) return what.error();
    auto chosen = graph_options(options);
    if (!chosen) return chosen.error();
    auto compiled = (*with)->client.compile((*what)->model.graph, *chosen);
    if (!compiled) return compiled.error();
    const bool has_weights = !(*what)->model.weights.empty();
    if (has_weights) compiled = compiled->bind((*what)->model.weights, {.cancel = chosen->cancel});
    if (!compiled) return compiled.error();
    auto object = std::make_unique<CompiledGraphObject>(std::move(*compiled));
    object->is_bound = has_weights;
    *fn = publish<kiln_compiled_graph>(std::move(object));
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
