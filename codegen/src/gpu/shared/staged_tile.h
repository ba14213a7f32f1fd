// A tile in shared memory, row-major, that threads write from registers in any layout and read one element at a time,
// at coordinates that code computes.
#pragma once

#include "gpu/context.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {

class StagedTile {
 public:
  // `element`: a scalar type, of ints, floats or pointers. Rows lie `pad` elements apart, which keeps them in different
  // banks.
  StagedTile(Context& ctx, const dsl::Type& element, const std::vector<int64_t>& extents, int64_t pad = 1);

  // All elements of a tile that begins at `start` along an axis. What its layout pads it with beyond `extents` (of the
  // tile) is left out.
  void write(const Registers& registers, const Layout& layout, const std::vector<int64_t>& extents, int axis = 0,
             int64_t start = 0);
  // From here on it is read: what a loop reads is written before the loop.
  void end_writes();
  // The coordinates by axis, all of them inside.
  Value* read(llvm::ArrayRef<Value*> coordinates);
  // By row-major number; of a tile without pads.
  Value* read_number(Value* number);

 private:
  Value* address(Value* element);
  Value* number_of(llvm::ArrayRef<Value*> coordinates);

  Context& ctx_;
  dsl::Type element_;
  llvm::Type* memory_;
  std::vector<int64_t> strides_;
  int64_t size_ = 1;  // and one more for each thread, for what is left out
  std::optional<SharedBuffer> buffer_;
};

}  // namespace kiln::codegen::gpu
