// Random numbers by Philox4x32-10.
#pragma once

#include <array>

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// The keys of its rounds, from a seed, in lanes like the offset's; the four words.
using PhiloxKeys = std::array<std::array<Value*, 2>, 10>;
PhiloxKeys philox_keys(Builder& ir, Value* seed);
std::array<Value*, 4> emit_philox(Builder& ir, const PhiloxKeys& keys, Value* offset);

}  // namespace kiln::codegen
