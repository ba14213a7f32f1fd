// What ops that access global memory by pointers share: which registers go together, and which threads act.
#pragma once

#include "gpu/address/address.h"
#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Registers of one access, in the order of memory.
using Group = std::vector<size_t>;

// How many neighbours along the last axis one access may take: in one thread, aligned, and under one mask.
int64_t vector_of(Context& ctx, const Op& op, const Layout& layout, std::optional<ValueId> mask);
// All registers in groups of `vector` neighbours along an axis, the last one if none is said.
std::vector<Group> groups_of(const Layout& layout, int64_t vector, std::optional<int> axis = std::nullopt);

// Whether a thread is the first of those that have the same elements: null for always.
Value* is_first_copy(Context& ctx, const Layout& layout);
// What the first copies have, bits of ints, for all: from their lanes, or through shared memory where warps have
// copies.
void tell_copies(Context& ctx, const Layout& layout, Value* first, Registers& bits);
// Of two predicates, each null for always.
Value* both(Builder& ir, Value* x, Value* y);

Value* pointer_of(Context& ctx, const Address& address);
// The addresses of an access to global memory, and such an access of one register.
Result<std::vector<Address>> access_addresses(Context& ctx, ValueId pointers, const Layout& layout);
GlobalAccess access_at(Context& ctx, const Address& address, Value* predicate);
// Nothing where the op has no such operand; of a value that is not there no registers.
std::optional<ValueId> operand(const Op& op, size_t index);
Result<Registers> get_if(Context& ctx, const std::optional<ValueId>& id, const Layout& layout);

}  // namespace kiln::codegen::gpu
