// Expressions and bodies under other numbers.
#pragma once

#include <span>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// The expression with constexpr atom i as atom dims[i]; each atom must have its entry.
Expr renumber(const Expr& expr, std::span<const uint32_t> dims);
// Which of the first `count` constexpr atoms it mentions.
std::vector<bool> used_dims(const Expr& expr, size_t count);
// Gives the inputs of a body the first values, in their order; the others keep theirs behind them.
void number_inputs_first(Body& body);

}  // namespace kiln::graph
