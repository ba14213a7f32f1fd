// What an atomic leaves in memory; reduce_tile does the same element by element.
#pragma once

#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {

uint64_t atomic_result(AtomicKind kind, ElementType type, uint64_t old, uint64_t bits);

}  // namespace kiln::dsl::interpreter
