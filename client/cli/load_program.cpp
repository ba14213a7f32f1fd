#include "load_program.h"

#include "kiln/client/pt2.h"
#include "kiln/graph/text.h"
#include "kiln/wire/files.h"

namespace kiln::cli {
namespace {

bool is_pt2(const std::string& file) { return file.ends_with(".pt2"); }

}  // namespace

bool is_program_file(const std::string& file) { return is_pt2(file) || file.ends_with(".kg"); }

Result<Program> load_model(const std::string& file) {
  auto model = client::load_pt2(file);
  if (!model) return model.error();
  Program out{.graph = std::move(model->graph), .values = {}, .weights = {}};
  for (auto& [name, state] : model->states) out.values.emplace(name, std::move(state.initial));
  for (auto& [name, weight] : model->weights) {
    out.weights.push_back(name);
    out.values.emplace(name, std::move(weight));
  }
  return out;
}

Result<Program> load_program(const std::string& file) {
  if (is_pt2(file)) return load_model(file);
  auto text = wire::read_text(file);
  if (!text) return text.error();
  auto graph = graph::parse(*text, file);
  if (!graph) return graph.error();
  return Program{.graph = std::move(*graph), .values = {}, .weights = {}};
}

Result<graph::Graph> load_graph(const std::string& file) {
  auto program = load_program(file);
  if (!program) return program.error();
  return std::move(program->graph);
}

graph::Array borrowed(const client::ArrayView& view) {
  graph::Array out{.element = view.element,
                   .shape = view.shape,
                   .strides = view.strides,
                   .data = static_cast<const std::byte*>(view.data),
                   .storage = {}};
  if (!out.strides.empty() || out.shape.empty()) return out;
  out.strides.resize(out.shape.size());
  int64_t stride = 1;
  for (size_t axis = out.shape.size(); axis-- > 0; stride *= out.shape[axis]) out.strides[axis] = stride;
  return out;
}

}  // namespace kiln::cli
