#include "text/print_names.h"

#include <unordered_set>

#include "kiln/dsl/text_format.h"

namespace kiln::graph {
namespace {

template <class Items>
std::vector<std::string> unique_names(const Items& items, const std::string& fallback, bool words_only) {
  std::unordered_set<std::string> taken;
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const auto& item : items) {
    const bool usable = words_only ? dsl::is_name(item.name) : !item.name.empty();
    const std::string wanted = usable ? item.name : fallback + std::to_string(out.size());
    std::string name = wanted;
    for (size_t i = 2; !taken.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    out.push_back(words_only ? name : text_name(name));
  }
  return out;
}

}  // namespace

std::string text_name(const std::string& name) { return dsl::is_name(name) ? name : dsl::in_quotes(name); }

// Expressions mention dims without a mark, so theirs are words.
PrintNames::PrintNames(const Graph& graph)
    : dims(unique_names(graph.dims, "d", true)),
      bodies(unique_names(graph.bodies, "body", false)),
      kernels(unique_names(graph.kernels, "kernel", false)) {}

dsl::ExprNames PrintNames::exprs() const {
  return {[this](uint32_t i) { return i < dims.size() ? dims[i] : "?"; }, [](uint32_t) { return std::string("?"); }};
}

std::string PrintNames::body(int64_t id) const {
  return id >= 0 && static_cast<size_t>(id) < bodies.size() ? bodies[static_cast<size_t>(id)] : "?";
}

std::string PrintNames::kernel(int64_t id) const {
  return id >= 0 && static_cast<size_t>(id) < kernels.size() ? kernels[static_cast<size_t>(id)] : "?";
}

}  // namespace kiln::graph
