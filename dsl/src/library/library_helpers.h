// What the library's files share.
#pragma once

#include <functional>

#include "kiln/dsl/library.h"
#include "trace/trace.h"

namespace kiln::dsl::lang {

// Runs a computation in f32 for floats below 32 bits and rounds its result once, at the end.
Value in_f32(const Operand& x, const std::function<Value(Value)>& compute);

// A tile of rank 1 with axes of extent 1 around it, such that it runs along one axis of a tile of some rank.
Value along_axis(Value x, int64_t axis, int rank);

}  // namespace kiln::dsl::lang
