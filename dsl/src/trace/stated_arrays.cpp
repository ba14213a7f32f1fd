#include "trace/stated_arrays.h"

namespace kiln::dsl {

void StatedArrays::state(ValueId base, const std::optional<Expr>& elements) {
  if (!elements) return reach(base);
  const auto [known, added] = elements_.try_emplace(base, *elements);
  if (!added && !(known->second == *elements)) known->second = Expr::apply(AtomKind::kMax, known->second, *elements);
}

std::vector<ArrayInfo> StatedArrays::arrays(const Kernel& kernel) const {
  std::vector<ArrayInfo> out;
  for (const Param& param : kernel.params) {
    const auto known = elements_.find(param.value);
    if (!param.type.pointer || known == elements_.end() || reached_.contains(param.value)) continue;
    out.push_back({.param = param.name, .elements = known->second, .range = {}, .stated = false});
  }
  return out;
}

std::optional<Expr> elements_of(const std::vector<std::optional<Expr>>& extents,
                                const std::vector<std::optional<Expr>>& strides) {
  Expr out(1);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (!extents[i] || (!strides.empty() && !strides[i])) return std::nullopt;
    out = strides.empty() ? out * *extents[i] : out + (*extents[i] - Expr(1)) * *strides[i];
  }
  return out;
}

}  // namespace kiln::dsl
