// Copies of tiles into scratch memory, chunk by chunk.
#pragma once

#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {

// Whether a slot holds all of it.
bool is_whole(const Context& ctx, ValueId id);
// Whether others are to find the slot that an op got for its operand. Index arithmetic is better computed again: once
// in scratch, it no longer tells what is contiguous.
bool worth_publishing(const Context& ctx, ValueId id);
// A slot that holds all of a tile at this place of the program: the one it has, or a new one. For ops that read their
// operands from memory. kDense: the strides are those of a row-major array without gaps.
Result<ScratchSlot> slot_of(Context& ctx, ValueId id, Rows rows = Rows::kClose);
// Copies a whole tile value, or a scalar, into a slot.
Result<void> materialise(Context& ctx, ValueId id, const ScratchSlot& slot);
// The same of several tiles of one shape by one walk: a chunk computes all of its values, then stores them.
struct TilePlace {
  ValueId id;
  ScratchSlot slot;
};
Result<void> materialise(Context& ctx, llvm::ArrayRef<TilePlace> tiles);
// Hands every chunk of a tile, all of its lanes, to `store`. A scalar is one chunk of a nest of rank 0.
using StoreChunk = std::function<void(Nest&, Value* vector)>;
Result<void> materialise_from(Context& ctx, ValueId id, const StoreChunk& store);
// The same for packing (dot): `vector_dim` and `width` are fixed.
// `listed`: those rows (dimension 0) alone.
Result<void> pack(Context& ctx, ValueId id, int vector_dim, int width, const StoreChunk& store,
                  const std::optional<Nest::Listed>& listed = std::nullopt);

}  // namespace kiln::codegen::cpu
