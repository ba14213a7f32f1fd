// Columns of B that lie in memory with K along them, packed K-major.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// Rows 0…end-1, K along them, into K-major panels of `width` rows, which begin `distance` bytes a row
// apart.
struct Transposition {
  ElementType from;
  Value *source = nullptr, *row = nullptr, *to = nullptr;
  int64_t distance = 0, end = 0, width = 0;
};
bool can_transpose(const DotBlocking& blocking);
void emit_transposed(Context& ctx, const DotBlocking& blocking, const Transposition& t);
int64_t transposed_overrun(const DotBlocking& blocking);  // bytes written behind the last panel, at most

}  // namespace kiln::codegen::cpu
