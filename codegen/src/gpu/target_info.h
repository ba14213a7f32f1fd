// All that a vendor supplies to the common GPU lowering: how threads find out who they are, talk to each other and
// reach memory, and what its instructions can do. Nothing else in this directory knows a vendor.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "elementwise/elementwise.h"
#include "gpu/block/block_shape.h"
#include "gpu/dot/tensor_engine.h"
#include "gpu/layout/conversion.h"
#include "gpu/pipeline/bulk_engine.h"
#include "kiln/dsl/ops.h"
#include "kiln/dsl/types.h"
#include "math/vector_math.h"

namespace kiln::codegen::gpu {

using llvm::Value;

// An access to global memory: of one thread, of up to 16 aligned bytes.
struct GlobalAccess {
  Value* pointer = nullptr;
  Value* predicate = nullptr;  // i1; null: always
  dsl::CacheHint cache = dsl::CacheHint::kAll;
  dsl::Eviction eviction = dsl::Eviction::kNormal;
  bool is_constant = false;  // of loads: whenever it is made it sees the same (constant_loads.h)
  // In place of the pointer, of targets that reach so (offset_reach): an address that all threads have alike, a
  // thread's offset, i32 without a sign, and a constant one. Bytes.
  struct Offsets {
    Value *base = nullptr, *by_thread = nullptr;
    int64_t constant = 0;
  } offsets = {};
};

// An atomic access to global memory, of one thread, which by itself orders no others.
struct AtomicAccess {
  Value* pointer = nullptr;
  Value* predicate = nullptr;  // i1; null: always
  dsl::MemoryScope scope = dsl::MemoryScope::kDevice;
};

// An instruction that multiplies tiles of matrices, of one warp. Operands come in the registers of the fragments'
// layouts, one LLVM value an element: in the types that the operands of the dot have in registers.
struct MatrixInstruction {
  Layout a, b, accumulator;
  using Operand = llvm::ArrayRef<Value*>;
  std::function<std::vector<Value*>(Builder& ir, Operand a, Operand rhs, Operand accumulator)> emit;
};

// The same, of operands of f8, or of u8 that pack two e2m1 along the inner axis, of which 32 neighbours along that axis
// share a scale, a u8 that stands for 2^(s-127), 0xff for NaN. Lanes give the scales by the layouts of [rows, blocks of
// 32] and [columns, blocks]: what a lane has copies of, others have too.
struct ScaledInstruction {
  Layout a, b, accumulator, a_scales, b_scales;
  using Operand = MatrixInstruction::Operand;
  std::function<std::vector<Value*>(Builder& ir, Operand a, Operand rhs, Operand a_scales, Operand b_scales,
                                    Operand accumulator)>
      emit;
};

// A product of several warps, which runs beside them: operands are read from shared memory (A, if it likes, from
// registers) while the threads go on, until group_wait. In shared memory a tile lies as shared_panels says.
struct GroupOperand {
  // In shared memory: the address of the tile's first element, and what the instruction must know of the panels.
  Value* address = nullptr;
  bool k_fastest = true;           // else the other axis runs fastest
  int swizzle_bytes = 128;         // of a panel's lines
  int64_t panel_stride = 0;        // bytes from one panel to the next
  std::vector<int64_t> k_offsets;  // bytes from `address` to each k step's part
  // In registers: of all k steps, one after another.
  std::vector<Value*> registers;
};
struct GroupInstruction {
  int warps = 4, rows = 64, k = 16, max_columns = 256, element_bits = 16;
  int least_columns = 8;         // of which the columns are a multiple
  bool any_axis_fastest = true;  // else k must run fastest in shared memory
  bool a_from_registers = true;  // else from shared memory too
  Layout a;                      // of one k step in registers
  std::function<Layout(int columns)> accumulator;
  // acc += a·b over all k steps; `clear`: acc = a·b, and the accumulators are not read.
  std::function<std::vector<Value*>(Builder& ir, const GroupOperand& a, const GroupOperand& rhs, int columns,
                                    llvm::ArrayRef<Value*> accumulators, bool clear)>
      emit;
  // In place of emit, of instructions that sum up in tensor memory (tensor_engine.h): from this address on. One thread
  // of the group tells.
  std::function<void(Builder& ir, const GroupOperand& a, const GroupOperand& rhs, int columns, Value* sums, bool clear,
                     Value* chosen)>
      emit_to_tensor_memory;
  bool sums_in_tensor_memory() const { return emit_to_tensor_memory != nullptr; }
};

class TargetInfo {
 public:
  virtual ~TargetInfo() = default;

  virtual int lanes() const = 0;  // of a warp
  virtual LaneFacts lane_facts() const = 0;
  virtual MathOptions math() const = 0;
  // Words of 32 bits that a thread has at most, in a block of so many.
  virtual int64_t most_registers(int /*threads*/) const { return INT64_MAX; }
  virtual SmallFloatInstructions small_floats() const { return {}; }
  // The high half of a product of ints; null: elementwise/ops.cpp makes it.
  virtual Value* multiply_high(Builder&, bool /*is_signed*/, Value* /*x*/, Value* /*y*/) const { return nullptr; }
  // x shifted by y, to the right with zeros behind; 0 where y is no smaller than x has bits. Null: as before.
  virtual Value* shift(Builder&, bool /*to_left*/, Value* /*x*/, Value* /*y*/) const { return nullptr; }

  // A kernel's function, with `threads` threads to a block. Of a parameter of array type it gets the address: these are
  // bytes that lie in the parameter block, at a multiple of 64.
  virtual llvm::Function* create_kernel(llvm::Module& module, const std::string& name,
                                        llvm::ArrayRef<llvm::Type*> params, int threads) const = 0;
  virtual Value* thread_id(Builder& ir) const = 0;  // in the block
  virtual Value* program_id(Builder& ir, int axis) const = 0;
  virtual Value* num_programs(Builder& ir, int axis) const = 0;
  // x, which is the same in all threads of a warp, as a value that the compiler knows to be so.
  virtual Value* warp_uniform(Builder& ir, Value* x) const = 0;

  // For operands of a and b and accumulators of `sum`; nothing where there is no such instruction, or it would be less
  // exact than `precision` asks for.
  virtual std::optional<MatrixInstruction> matrix_instruction(dsl::ElementType a, dsl::ElementType b,
                                                              dsl::ElementType sum, dsl::Precision precision) const = 0;

  // A branch's condition, which is the same in all threads of the program, as one that the assembler knows to be so.
  virtual Value* uniform_condition(Builder&, Value* x) const { return x; }

  // i32 from another lane of the warp.
  virtual Value* shuffle(Builder& ir, Value* word, Value* lane) const = 0;
  virtual Value* shuffle_xor(Builder& ir, Value* word, unsigned mask) const = 0;
  // Of all threads of the block; orders accesses to shared memory.
  virtual void barrier(Builder& ir) const = 0;
  // The same among the lanes of a warp.
  virtual void warp_barrier(Builder& ir) const = 0;
  // The condition of a loop in which lanes finish one by one: whether any lane of the warp goes on, so that the warp
  // leaves it together; or `x` itself, where lanes may leave it alone. All lanes of the warp are there.
  virtual Value* any_lane(Builder&, Value* x) const { return x; }
  // Of all threads of the program.
  void program_barrier(Builder& ir, const BlockShape& block) const {
    if (block.producers > 0) return bulk_engine()->program_barrier(ir, block);
    block.programs > 1 ? warp_barrier(ir) : barrier(ir);
  }

  // Of LaneFacts::matrix_load and matrix_store: `count` (1, 2 or 4) matrices of 8 rows of 16 bytes in shared memory.
  // Lanes 8·i … 8·i+7 give the addresses of the rows of matrix i. Lane l has word l % 4 of row l / 4 of each matrix;
  // transposed, of 16-bit elements, those of rows 2·(l % 4) and the next in column l / 4.
  virtual std::vector<Value*> load_matrices(Builder& ir, Value* address, int count, bool transposed) const = 0;
  virtual void store_matrices(Builder& ir, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const = 0;

  // Copies from global to shared memory that run beside the thread. The sizes in bytes that one may have, as a sum;
  // 0: there are none.
  virtual int async_copy_sizes() const = 0;
  // Where the predicate is false zeros are written.
  virtual void async_copy(Builder& ir, Value* shared, const GlobalAccess& from, int bytes) const = 0;
  // The thread's copies since the last commit are a group; waits until at most so many groups are under way.
  virtual void async_commit(Builder& ir) const = 0;
  virtual void async_wait(Builder& ir, int groups) const = 0;

  // Products of several warps at once; nothing where the target, these types or this precision have none.
  virtual std::optional<GroupInstruction> group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                            dsl::ElementType sum, dsl::Precision precision) const = 0;
  // Ordinary accesses to shared memory and registers come before the group's products that follow.
  virtual void group_fence(Builder& ir) const = 0;
  virtual void group_commit(Builder& ir) const = 0;
  // Elements of A, of so many bits, in registers of their own: what they were in may be written while products read A.
  virtual std::vector<Value*> group_copy(Builder&, llvm::ArrayRef<Value*> elements, int /*bits*/) const {
    return elements.vec();
  }
  // Waits until at most so many groups of products are under way. What the accumulators are from then on is returned.
  virtual std::vector<Value*> group_wait(Builder& ir, int groups, llvm::ArrayRef<Value*> accumulators) const = 0;
  // Ordinary stores to shared memory by this thread are seen by products and bulk copies, once a barrier has passed.
  virtual void group_publish(Builder& ir) const = 0;

  // `type`: a scalar or a vector of up to 16 bytes; `other`, of that type, where the predicate is false (null: 0).
  virtual Value* load_global(Builder& ir, llvm::Type* type, const GlobalAccess& access, Value* other) const = 0;
  virtual void store_global(Builder& ir, Value* value, const GlobalAccess& access) const = 0;

  // Whether an instruction combines `count` neighbours with memory by the rules of docs/reference/ops.md, and gives
  // what was there before.
  virtual bool has_atomic(dsl::AtomicKind kind, dsl::ElementType element, int64_t count, bool gives_old) const = 0;
  // That instruction. `value`: bits, an integer or a vector of `count`. What was there, 0 where the predicate is false;
  // null unless it gives that.
  virtual Value* atomic_rmw(Builder& ir, dsl::AtomicKind kind, dsl::ElementType element, Value* value, bool gives_old,
                            const AtomicAccess& access) const = 0;
  // Integers of so many bits to 64 are exchanged where memory holds what is expected; what it held, or 0.
  virtual int least_exchange_bits() const = 0;
  virtual Value* compare_exchange(Builder& ir, Value* expected, Value* desired, const AtomicAccess& access) const = 0;
  // Whether the target's inline assembly holds values of the type in what a constraint names ("=r" of a result too).
  virtual bool takes_constraint(llvm::StringRef constraint, llvm::Type* type) const = 0;
  // Orders all accesses of the thread, and those that a barrier has put before it, for others that look in this scope.
  virtual void fence(Builder& ir, dsl::MemoryScope scope, Value* predicate) const = 0;
  // Null where there is none.
  virtual const BulkEngine* bulk_engine() const { return nullptr; }
  // The same; where there is one there is a bulk engine too.
  virtual const TensorEngine* tensor_engine() const { return nullptr; }

  // Bytes behind a common address where accesses by GlobalAccess::offsets end; 0: there are none.
  virtual int64_t offset_reach() const { return 0; }

  // Around the products of a tile by matrix instructions, and the reads of their operands from shared memory: how the
  // warp is scheduled meanwhile. All reads stand before the products.
  virtual void begin_products(Builder&) const {}
  virtual void end_operand_reads(Builder&) const {}
  virtual void end_products(Builder&) const {}

  // Products by scales: for operands of a and b, which are both f8 or both u8 for e2m1, and accumulators of f32.
  virtual std::optional<ScaledInstruction> scaled_instruction(dsl::ElementType /*a*/, dsl::ElementType /*b*/) const {
    return std::nullopt;
  }
};

}  // namespace kiln::codegen::gpu
