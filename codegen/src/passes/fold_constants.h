// An op on known scalars, computed by the interpreter.
#pragma once

#include <optional>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// The bits of the op's one result for operands with these bits; the op is elementwise, its scalar operands have these
// types. Nothing where the language leaves the bits open.
std::optional<uint64_t> evaluate_scalar(const dsl::Op& op, const std::vector<dsl::Type>& types,
                                        const std::vector<uint64_t>& operands, const dsl::Type& result);

}  // namespace kiln::codegen
