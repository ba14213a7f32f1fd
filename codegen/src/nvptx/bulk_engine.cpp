// As inline PTX ("Data Movement and Conversion Instructions: Tensor copy" and "mbarrier" in the PTX ISA). The predicate
// is inside the assembly, so that no branch comes between registers that matrix instructions are filling. Barriers are
// without qualifiers: `.release.cluster` costs a fence of the whole GPU.
#include "nvptx/bulk_engine.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Metadata.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "kiln/target/gpu.h"
#include "nvptx/asm.h"

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

// "[$0, {$1, $2}]"
std::string place_in_tensor(unsigned first, size_t rank) {
  std::string out = "[$" + std::to_string(first) + ", {";
  for (unsigned i = 1; i <= rank; ++i) out += (i > 1 ? ", $" : "$") + std::to_string(first + i);
  return out + "}]";
}

// Where `chosen` (null: always), with operands $0, $1… Shared addresses and ints go into registers of 32 bits (16: of
// 16), pointers into wide ones.
llvm::Instruction* run(Builder& b, const std::string& instruction, llvm::SmallVector<Value*, 12> operands,
                       Value* chosen) {
  std::string text = instruction;
  if (chosen) {
    text = "{ .reg .pred p; setp.ne.b32 p, $" + std::to_string(operands.size()) + ", 0; @p " + text + " }";
    operands.push_back(b.CreateZExt(chosen, b.getInt32Ty()));
  }
  std::string constraints;
  llvm::SmallVector<llvm::Type*, 12> types;
  for (Value*& x : operands) {
    if (x->getType()->isPointerTy() && x->getType()->getPointerAddressSpace() != 0) {
      x = b.CreatePtrToInt(x, b.getInt32Ty());
    }
    constraints += x->getType()->isPointerTy() ? "l," : x->getType()->isIntegerTy(16) ? "h," : "r,";
    types.push_back(x->getType());
  }
  constraints += "~{memory}";
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(b.getVoidTy(), types, false), text, constraints, true);
  return b.CreateCall(assembly, operands);
}

constexpr int kRegisterUnit = target::NvidiaGpu::kRegisterUnit, kCopyingRegisters = 24, kMostRegisters = 240;
constexpr int kGroupWarps = 4;
constexpr int kLeastCapability = 90;  // that has the engine

// Groups of four warps have registers to give or to take. Where programs are so large that one has a multiprocessor to
// itself, its threads want more than an equal share.
bool registers_move(const gpu::BlockShape& block) { return block.computing_threads() >= 2 * kGroupWarps * block.lanes; }

// The assembler gives no registers away where it does not know that a block has all of them.
void needs_whole_multiprocessor(Builder& b) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::LLVMContext& context = b.getContext();
  llvm::NamedMDNode* annotations = function->getParent()->getOrInsertNamedMetadata("nvvm.annotations");
  annotations->addOperand(
      llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(function), llvm::MDString::get(context, "minctasm"),
                                  llvm::ValueAsMetadata::get(b.getInt32(1))}));
}

}  // namespace

llvm::Instruction* CudaBulkEngine::init_barrier(Builder& b, Value* barrier, int arrivals, Value* chosen) const {
  return run(b, "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(arrivals) + ";", {barrier}, chosen);
}

llvm::Instruction* CudaBulkEngine::arrive(Builder& b, Value* barrier, Value* chosen) const {
  return run(b, "mbarrier.arrive.shared::cta.b64 _, [$0];", {barrier}, chosen);
}

llvm::Instruction* CudaBulkEngine::arrive_expecting(Builder& b, Value* barrier, int64_t bytes, Value* chosen) const {
  return run(b, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(bytes) + ";", {barrier}, chosen);
}

// The labels are local to the braces.
llvm::Instruction* CudaBulkEngine::wait(Builder& b, Value* barrier, Value* parity) const {
  return run(b,
             "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; @p bra done; bra again; "
             "done: }",
             {barrier, parity}, nullptr);
}

llvm::Instruction* CudaBulkEngine::load(Builder& b, const gpu::BoxCopy& copy, Value* barrier, Value* chosen) const {
  const size_t rank = copy.coordinates.size();
  llvm::SmallVector<Value*, 12> operands = {copy.shared, copy.map};
  operands.append(copy.coordinates.begin(), copy.coordinates.end());
  operands.push_back(barrier);
  std::string form = ".mbarrier::complete_tx::bytes", blocks;
  if (copy.for_cluster) {
    form += ".multicast::cluster";
    blocks = ", $" + std::to_string(operands.size());
    operands.push_back(b.getInt16((1 << most_of_cluster()) - 1));
  }
  return run(b,
             "cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global.tile" + form + " [$0], " +
                 place_in_tensor(1, rank) + ", [$" + std::to_string(2 + rank) + "]" + blocks + ";",
             operands, chosen);
}

llvm::Instruction* CudaBulkEngine::store(Builder& b, const gpu::BoxCopy& copy, Value* chosen) const {
  const size_t rank = copy.coordinates.size();
  llvm::SmallVector<Value*, 12> operands = {copy.shared, copy.map};
  operands.append(copy.coordinates.begin(), copy.coordinates.end());
  return run(b,
             "cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta.tile.bulk_group " +
                 place_in_tensor(1, rank) + ", [$0];",
             operands, chosen);
}

void CudaBulkEngine::end_store_group(Builder& b, Value* chosen) const {
  run(b, "cp.async.bulk.commit_group;", {}, chosen);
}

llvm::Instruction* CudaBulkEngine::wait_store_groups(Builder& b, int pending, bool until_read, Value* chosen) const {
  return run(b, std::string("cp.async.bulk.wait_group") + (until_read ? ".read " : " ") + std::to_string(pending) + ";",
             {}, chosen);
}

void CudaBulkEngine::send(Builder& b, Value* place, Value* number) const {
  run(b, "st.shared.u32 [$0], $1;", {place, number}, nullptr);
}

Value* CudaBulkEngine::receive(Builder& b, Value* place) const {
  Value* address = b.CreatePtrToInt(place, b.getInt32Ty());
  return call_asm(b, b.getInt32Ty(), "ld.shared.u32 $0, [$1];", "=r,r", {address});
}

Value* CudaBulkEngine::count_up(Builder& b, Value* counter, Value* last) const {
  return call_asm(b, b.getInt32Ty(), "atom.relaxed.gpu.inc.u32 $0, [$1], $2;", "=r,l,r", {counter, last});
}

Value* CudaBulkEngine::number_in_cluster(Builder& b) const {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {}, {});
}

llvm::Instruction* CudaBulkEngine::arrive_in_cluster(Builder& b, Value* barrier, Value* block, Value* chosen) const {
  Value* there = b.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {}, {barrier, block});
  return run(b, "mbarrier.arrive.shared::cluster.b64 _, [$0];", {there}, chosen);
}

// Relaxed: to release what was written costs a fence of the whole GPU, and barriers were published.
void CudaBulkEngine::cluster_barrier(Builder& b) const {
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned, {}, {});
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {}, {});
}

// bar.sync of some threads: 0 is that of all. Either side says how many: a count of arrivals is an illegal instruction
// where others wait for "all that have not ended".
void CudaBulkEngine::program_barrier(Builder& b, const gpu::BlockShape& block) const {
  const std::string threads = std::to_string(block.threads());
  if (block.crews == 1) {
    call_asm(b, b.getVoidTy(), "bar.sync 1, " + threads + ";", "", {}, Together::kWarp);
    return;
  }
  Value* thread = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  Value* crew = b.CreateUDiv(thread, b.getInt32(static_cast<uint32_t>(block.threads())));
  call_asm(b, b.getVoidTy(), "bar.sync $0, " + threads + ";", "r", {b.CreateAdd(crew, b.getInt32(1))}, Together::kWarp);
}

// Behind that of the program.
void CudaBulkEngine::group_barrier(Builder& b, Value* group, int threads) const {
  call_asm(b, b.getVoidTy(), "bar.sync $0, " + std::to_string(threads) + ";", "r", {b.CreateAdd(group, b.getInt32(2))},
           Together::kWarp);
}

void CudaBulkEngine::block_barrier(Builder& b, const gpu::BlockShape& block) const {
  call_asm(b, b.getVoidTy(), "bar.sync 0, " + std::to_string(block.block_threads()) + ";", "", {}, Together::kWarp);
}

void CudaBulkEngine::arrive_at_block_barrier(Builder& b, const gpu::BlockShape& block) const {
  call_asm(b, b.getVoidTy(), "bar.arrive 0, " + std::to_string(block.block_threads()) + ";", "", {}, Together::kWarp);
}

int CudaBulkEngine::copying_warps(const gpu::BlockShape& program) const {
  if (!is_specific_) return 0;
  return registers_move(program) ? kGroupWarps : 1;
}

// A thread begins with its share of 64 K registers, by eights, of which the copying warps keep 24.
void CudaBulkEngine::begin_copying(Builder& b, const gpu::BlockShape& block) const {
  if (!registers_move(block)) return;
  needs_whole_multiprocessor(b);
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32, {}, {b.getInt32(kCopyingRegisters)});
}

void CudaBulkEngine::begin_computing(Builder& b, const gpu::BlockShape& block) const {
  if (!registers_move(block)) return;
  const int left = static_cast<int>(target::nvidia_gpu(kLeastCapability).registers) -
                   kCopyingRegisters * block.copying * block.lanes;
  const int share = std::min(left / block.computing_threads() / kRegisterUnit * kRegisterUnit, kMostRegisters);
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32, {},
                    {b.getInt32(static_cast<uint32_t>(share))});
}

void CudaBulkEngine::publish_shared(Builder& b) const { run(b, "fence.proxy.async.shared::cta;", {}, nullptr); }

void CudaBulkEngine::publish_barriers(Builder& b) const { run(b, "fence.mbarrier_init.release.cluster;", {}, nullptr); }

void CudaBulkEngine::prefetch_map(Builder& b, Value* map, Value* chosen) const {
  run(b, "prefetch.tensormap [$0];", {map}, chosen);
}

}  // namespace kiln::codegen::nvptx
