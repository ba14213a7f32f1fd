// One application of an op, written in a line: what the rules say of it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kiln/graph/builder.h"
#include "kiln/graph/infer.h"

namespace kiln::graph::inferring {

using Ints = std::vector<int64_t>;
using Exprs = std::vector<Expr>;

// Dims n, m of 1 … 4096; k of 8 … 4096 that 8 divides; z of 0 … 16. With bodies and kernels for those that name some:
// @add (scalars f32, f32 → f32), @pair (f32[n], f32[4] → f32[n], f32[4]), kernel 0 (f32[n] → f32[n]).
const Graph& ground();

// "n", "2*n + 1", "k - 8", "div(n, 4)": sums of products of numbers and dims.
Expr expr(const std::string& text);
Exprs exprs(const std::string& text);      // "n, 4"
TensorType type(const std::string& text);  // "f32[n, 4]"

// The types of the results, "f32[n], i64[n]", or the error's message. An operand "-" is left out.
std::string results(TensorOp op, const std::vector<std::string>& operands, AttrList attrs = {});
std::string results(const Graph& graph, TensorOp op, const std::vector<std::string>& operands, AttrList attrs = {});

inline constexpr int64_t kAddBody = 1, kPairBody = 2, kNothingBody = 3;

}  // namespace kiln::graph::inferring
