// Sizes of dims from the extents of what a program gives: for all that runs a graph.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

struct DeclaredTensor {
  std::string_view name;
  const TensorType* type = nullptr;
};
struct GivenTensor {
  ElementType element = ElementType::kF32;
  std::span<const int64_t> shape;
};

// A value by dim, as Bindings::constexprs. Extents that mention one unknown dim, once and linearly, say its size;
// `sizes` says those that are left, by name. Dims that nothing says have none. Errors name the input, its shape and
// what the graph `name` declares: another number or type of inputs, an extent that is another, a size that its dim may
// not have.
Result<dsl::Bindings> bind_sizes(std::string_view name, std::span<const DimInfo> dims,
                                 std::span<const DeclaredTensor> declared, std::span<const GivenTensor> given,
                                 const std::map<std::string, int64_t>& sizes = {});

// The dims that an expression mentions, in order.
std::vector<uint32_t> mentioned_dims(const Expr& expr);

}  // namespace kiln::graph
