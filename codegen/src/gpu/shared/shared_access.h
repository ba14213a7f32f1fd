// Code for accesses to shared memory that layout/conversion.h plans: vectors of a thread's own elements, or matrices of
// a warp.
#pragma once

#include "gpu/context.h"
#include "gpu/layout/conversion.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {

// Where elements lie, and for whose accesses barriers are inserted.
struct SharedPlace {
  const SharedBuffer* buffer;
  Value* base;  // the buffer, or a part of it
  int phase;
};

// `registers` are elements as integers of `bits` bits.
void store_shared(Context& ctx, const SharedPlace& place, const SharedAccess& access, const Registers& registers,
                  int bits);
Registers load_shared(Context& ctx, const SharedPlace& place, const SharedAccess& access, int bits);
// Of single elements: those alone whose register's number has `part` of the bits `mask`; others are null.
Registers load_shared_part(Context& ctx, const SharedPlace& place, const SharedAccess& access, int bits, Bits mask,
                           Bits part);

// base + the offset, in elements of `bits` bits, that the thread and the register make up.
Value* shared_address(Context& ctx, Value* base, const Layout& offsets, Bits reg, int bits);

// Elements travel as integers of their width; i1 as a byte.
int traveling_bits(const dsl::Type& type);
Value* to_bits(Context& ctx, Value* x, int bits);
Value* from_bits(Context& ctx, Value* x, const dsl::Type& type);
// Elements of one type as a vector; those of one or two vectors as a shuffle of these.
Value* vector_from(Builder& ir, llvm::ArrayRef<Value*> elements);

}  // namespace kiln::codegen::gpu
