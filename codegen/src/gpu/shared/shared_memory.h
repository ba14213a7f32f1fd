// Shared memory of a block. Lowering asks for buffers and marks each access; when the kernel is complete, two passes on
// its LLVM IR give buffers that are never alive at once the same bytes, and put barriers where threads could otherwise
// see each other's accesses in the wrong order.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <optional>
#include <vector>

#include "elementwise/elementwise.h"

namespace kiln::codegen::gpu {

inline constexpr unsigned kSharedSpace = 3;  // the address space, of NVIDIA and AMD alike

class SharedBuffer {
 public:
  // 16-byte aligned. Where a block has several consumer groups, each has its own, but of what is the block's.
  enum class Of : uint8_t { kProgram, kBlock };
  SharedBuffer(Builder& ir, int64_t bytes, Of of = Of::kProgram);
  Value* pointer() const { return pointer_; }

  // Says that an instruction reads or writes the buffer. Accesses of one phase do not meet each other's bytes.
  enum class Access : uint8_t { kRead, kWrite };
  void mark(llvm::Instruction* access, Access kind, int phase) const;
  // The same for what comes next, where that is no single instruction.
  void touch(Builder& ir, Access kind, int phase) const;

 private:
  int number_;
  llvm::CallInst* pointer_;
};

// What is marked at an instruction.
struct SharedMark {
  int buffer = 0;
  bool writes = false;
  int phase = 0;
};
std::optional<SharedMark> shared_mark(const llvm::Instruction& instruction);

// A buffer until it has a place: a call of this function with its number and its bytes.
inline constexpr char kBufferFunction[] = "kiln.shared.buffer";
// Such a call has this metadata where it is the block's.
inline constexpr char kOfBlock[] = "kiln.shared.block";
// What touch() puts there, marked.
inline constexpr char kTouchFunction[] = "kiln.shared.touch";

}  // namespace kiln::codegen::gpu
