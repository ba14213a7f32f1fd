// Lanes that talk to each other, and barriers.
//
// What is fetched from a lane whose number differs by a constant comes by DPP inside rows of 16 lanes, else by the LDS
// crossbar, which takes no memory: ds_swizzle inside halves of 32 lanes, ds_bpermute from anywhere. Between the two
// rows of 32 lanes gfx10 and later have v_permlanex16. (AMD's ISA guides, "Data Parallel Processing", "LDS Instruction
// Details".)
#include "amdgcn/cross_lane.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsAMDGPU.h>

#include "amdgcn/target_info.h"

namespace kiln::codegen::amdgcn {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

// Controls of DPP.
constexpr unsigned kRowMirror = 0x140, kRowHalfMirror = 0x141, kRowRotate8 = 0x128, kRowXor = 0x160;

unsigned quad_xor(unsigned mask) {
  unsigned out = 0;
  for (unsigned lane = 0; lane < 4; ++lane) out |= (lane ^ mask) << (2 * lane);
  return out;
}

Value* move(Builder& ir, Value* word, unsigned control) {
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_update_dpp, {word->getType()},
                            {llvm::PoisonValue::get(word->getType()), word, ir.getInt32(control), ir.getInt32(0xf),
                             ir.getInt32(0xf), ir.getTrue()});
}

// gfx9 has no row_xmask: mirrors flip 3 or 4 bits, a rotation by half a row flips the highest.
Value* row_xor_by_mirrors(Builder& ir, Value* word, unsigned mask) {
  unsigned low = mask & 3;
  if ((mask & 12) == 4) word = move(ir, word, kRowHalfMirror), low ^= 3;
  if ((mask & 12) == 8) word = move(ir, word, kRowRotate8);
  if ((mask & 12) == 12) word = move(ir, word, kRowMirror), low ^= 3;
  return low ? move(ir, word, quad_xor(low)) : word;
}

Value* swizzle_xor(Builder& ir, Value* word, unsigned mask) {
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_swizzle, {word, ir.getInt32(mask << 10 | 0x1f)});
}

// The lane at the same place of the other row.
Value* other_row(Builder& ir, Value* word) {
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_permlanex16, {word->getType()},
                            {llvm::PoisonValue::get(word->getType()), word, ir.getInt32(0x76543210),
                             ir.getInt32(0xfedcba98), ir.getFalse(), ir.getFalse()});
}

}  // namespace

Value* pinned(Builder& ir, Value* x) {
  auto* type = llvm::FunctionType::get(x->getType(), {x->getType()}, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, "", "=v,0", false), {x});
  call->setConvergent();
  call->setDoesNotAccessMemory();
  return call;
}

Value* AmdTargetInfo::shuffle(Builder& ir, Value* word, Value* lane) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_bpermute, {ir.CreateShl(lane, 2), word});
}

Value* AmdTargetInfo::shuffle_xor(Builder& ir, Value* word, unsigned mask) const {
  if (mask >= 32) {
    Value* lane = ir.CreateAnd(thread_id(ir), ir.getInt32(static_cast<uint32_t>(lanes() - 1)));
    return shuffle(ir, word, ir.CreateXor(lane, ir.getInt32(mask)));
  }
  if (processor_.major >= 10) {
    // LLVM folds scalar registers into the DPP operand of gfx12's instructions of 16 bits, which take none.
    if (mask & 15) word = move(ir, processor_.major >= 12 ? pinned(ir, word) : word, kRowXor | (mask & 15));
    return mask & 16 ? other_row(ir, word) : word;
  }
  return mask & 16 ? swizzle_xor(ir, word, mask) : row_xor_by_mirrors(ir, word, mask);
}

// LLVM's memory model ("AMDGPU Usage") makes of the fences the waits that the processor needs.
void AmdTargetInfo::barrier(Builder& ir) const {
  const llvm::SyncScope::ID workgroup = ir.getContext().getOrInsertSyncScopeID("workgroup");
  ir.CreateFence(llvm::AtomicOrdering::Release, workgroup);
  ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_barrier, {});
  ir.CreateFence(llvm::AtomicOrdering::Acquire, workgroup);
}

void AmdTargetInfo::warp_barrier(Builder& ir) const {
  const llvm::SyncScope::ID wave = ir.getContext().getOrInsertSyncScopeID("wavefront");
  ir.CreateFence(llvm::AtomicOrdering::Release, wave);
  ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_wave_barrier, {});
  ir.CreateFence(llvm::AtomicOrdering::Acquire, wave);
}

std::vector<Value*> AmdTargetInfo::load_matrices(Builder&, Value*, int, bool) const {
  llvm_unreachable("no instruction loads matrices");
}

void AmdTargetInfo::store_matrices(Builder&, Value*, llvm::ArrayRef<Value*>, bool) const {
  llvm_unreachable("no instruction stores matrices");
}

void AmdTargetInfo::async_copy(Builder&, Value*, const gpu::GlobalAccess&, int) const {
  llvm_unreachable("no copies run beside the thread");
}

}  // namespace kiln::codegen::amdgcn
