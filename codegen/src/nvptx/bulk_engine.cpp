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
llvm::Instruction* run(Builder& ir, const std::string& instruction, llvm::SmallVector<Value*, 12> operands,
                       Value* chosen) {
  std::string text = instruction;
  if (chosen) {
    text = "{ .reg .pred p; setp.ne.b32 p, $" + std::to_string(operands.size()) + ", 0; @p " + text + " }";
    operands.push_back(ir.CreateZExt(chosen, ir.getInt32Ty()));
  }
  std::string constraints;
  llvm::SmallVector<llvm::Type*, 12> types;
  for (Value*& x : operands) {
    if (x->getType()->isPointerTy() && x->getType()->getPointerAddressSpace() != 0) {
      x = ir.CreatePtrToInt(x, ir.getInt32Ty());
    }
    constraints += x->getType()->isPointerTy() ? "l," : x->getType()->isIntegerTy(16) ? "h," : "r,";
    types.push_back(x->getType());
  }
  constraints += "~{memory}";
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(ir.getVoidTy(), types, false), text, constraints, true);
  return ir.CreateCall(assembly, operands);
}

constexpr int kRegisterUnit = target::NvidiaGpu::kRegisterUnit, kProducerRegisters = 24, kMostRegisters = 240;
constexpr int kGroupWarps = 4;

// Groups of four warps have registers to give or to take. Where programs are so large that one has a multiprocessor to
// itself, its threads want more than an equal share.
bool registers_move(const gpu::BlockShape& block) { return block.computing_threads() >= 2 * kGroupWarps * block.lanes; }

// The assembler gives no registers away where it does not know that a block has all of them.
void needs_whole_multiprocessor(Builder& ir) { ir.GetInsertBlock()->getParent()->addFnAttr("nvvm.minctasm", "1"); }

}  // namespace

llvm::Instruction* CudaBulkEngine::init_barrier(Builder& ir, Value* barrier, int arrivals, Value* chosen) const {
  return run(ir, "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(arrivals) + ";", {barrier}, chosen);
}

llvm::Instruction* CudaBulkEngine::arrive(Builder& ir, Value* barrier, Value* chosen) const {
  return run(ir, "mbarrier.arrive.shared::cta.b64 _, [$0];", {barrier}, chosen);
}

llvm::Instruction* CudaBulkEngine::arrive_expecting(Builder& ir, Value* barrier, int64_t bytes, Value* chosen) const {
  return run(ir, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(bytes) + ";", {barrier},
             chosen);
}

// The labels are local to the braces.
llvm::Instruction* CudaBulkEngine::wait(Builder& ir, Value* barrier, Value* parity) const {
  return run(ir,
             "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; @p bra done; bra again; "
             "done: }",
             {barrier, parity}, nullptr);
}

llvm::Instruction* CudaBulkEngine::load(Builder& ir, const gpu::BoxCopy& copy, Value* barrier, Value* chosen) const {
  const size_t rank = copy.coordinates.size();
  llvm::SmallVector<Value*, 12> operands = {copy.shared, copy.map};
  operands.append(copy.coordinates.begin(), copy.coordinates.end());
  operands.push_back(barrier);
  std::string form = ".mbarrier::complete_tx::bytes", blocks;
  if (copy.for_cluster) {
    form += ".multicast::cluster";
    blocks = ", $" + std::to_string(operands.size());
    operands.push_back(ir.getInt16((1 << most_of_cluster()) - 1));
  }
  return run(ir,
             "cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global.tile" + form + " [$0], " +
                 place_in_tensor(1, rank) + ", [$" + std::to_string(2 + rank) + "]" + blocks + ";",
             operands, chosen);
}

llvm::Instruction* CudaBulkEngine::store(Builder& ir, const gpu::BoxCopy& copy, Value* chosen) const {
  const size_t rank = copy.coordinates.size();
  llvm::SmallVector<Value*, 12> operands = {copy.shared, copy.map};
  operands.append(copy.coordinates.begin(), copy.coordinates.end());
  return run(ir,
             "cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta.tile.bulk_group " +
                 place_in_tensor(1, rank) + ", [$0];",
             operands, chosen);
}

void CudaBulkEngine::end_store_group(Builder& ir, Value* chosen) const {
  run(ir, "cp.async.bulk.commit_group;", {}, chosen);
}

llvm::Instruction* CudaBulkEngine::wait_store_groups(Builder& ir, int pending, bool until_read, Value* chosen) const {
  return run(ir,
             std::string("cp.async.bulk.wait_group") + (until_read ? ".read " : " ") + std::to_string(pending) + ";",
             {}, chosen);
}

void CudaBulkEngine::send(Builder& ir, Value* place, Value* number) const {
  run(ir, "st.shared.u32 [$0], $1;", {place, number}, nullptr);
}

Value* CudaBulkEngine::receive(Builder& ir, Value* place) const {
  Value* address = ir.CreatePtrToInt(place, ir.getInt32Ty());
  return call_asm(ir, ir.getInt32Ty(), "ld.shared.u32 $0, [$1];", "=r,r", {address});
}

Value* CudaBulkEngine::count_up(Builder& ir, Value* counter, Value* last) const {
  return call_asm(ir, ir.getInt32Ty(), "atom.relaxed.gpu.inc.u32 $0, [$1], $2;", "=r,l,r", {counter, last});
}

Value* CudaBulkEngine::number_in_cluster(Builder& ir) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {});
}

llvm::Instruction* CudaBulkEngine::arrive_in_cluster(Builder& ir, Value* barrier, Value* block, Value* chosen) const {
  Value* there = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_mapa_shared_cluster, {barrier, block});
  return run(ir, "mbarrier.arrive.shared::cluster.b64 _, [$0];", {there}, chosen);
}

// Relaxed: to release what was written costs a fence of the whole GPU, and barriers were published.
void CudaBulkEngine::cluster_barrier(Builder& ir) const {
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned, {});
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
}

// bar.sync of some threads: 0 is that of all. Either side says how many: a count of arrivals is an illegal instruction
// where others wait for "all that have not ended".
void CudaBulkEngine::program_barrier(Builder& ir, const gpu::BlockShape& block) const {
  const std::string threads = std::to_string(block.threads());
  if (block.consumer_groups == 1) {
    call_asm(ir, ir.getVoidTy(), "bar.sync 1, " + threads + ";", "", {}, Together::kWarp);
    return;
  }
  Value* thread = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  Value* consumer_group = ir.CreateUDiv(thread, ir.getInt32(static_cast<uint32_t>(block.threads())));
  call_asm(ir, ir.getVoidTy(), "bar.sync $0, " + threads + ";", "r", {ir.CreateAdd(consumer_group, ir.getInt32(1))},
           Together::kWarp);
}

// Behind that of the program.
void CudaBulkEngine::group_barrier(Builder& ir, Value* group, int threads) const {
  call_asm(ir, ir.getVoidTy(), "bar.sync $0, " + std::to_string(threads) + ";", "r",
           {ir.CreateAdd(group, ir.getInt32(2))}, Together::kWarp);
}

void CudaBulkEngine::block_barrier(Builder& ir, const gpu::BlockShape& block) const {
  call_asm(ir, ir.getVoidTy(), "bar.sync 0, " + std::to_string(block.block_threads()) + ";", "", {}, Together::kWarp);
}

void CudaBulkEngine::arrive_at_block_barrier(Builder& ir, const gpu::BlockShape& block) const {
  call_asm(ir, ir.getVoidTy(), "bar.arrive 0, " + std::to_string(block.block_threads()) + ";", "", {}, Together::kWarp);
}

int CudaBulkEngine::producer_warps(const gpu::BlockShape& program) const {
  if (!gpu_.units.moves_registers) return 0;
  return registers_move(program) ? kGroupWarps : 1;
}

// A thread begins with its share of 64 K registers, by eights, of which the producer warps keep 24.
void CudaBulkEngine::begin_producing(Builder& ir, const gpu::BlockShape& block) const {
  if (!registers_move(block)) return;
  needs_whole_multiprocessor(ir);
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32, {ir.getInt32(kProducerRegisters)});
}

void CudaBulkEngine::begin_computing(Builder& ir, const gpu::BlockShape& block) const {
  if (!registers_move(block)) return;
  const int left = static_cast<int>(gpu_.registers) - kProducerRegisters * block.producers * block.lanes;
  const int share = std::min(left / block.computing_threads() / kRegisterUnit * kRegisterUnit, kMostRegisters);
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32,
                     {ir.getInt32(static_cast<uint32_t>(share))});
}

void CudaBulkEngine::publish_shared(Builder& ir) const { run(ir, "fence.proxy.async.shared::cta;", {}, nullptr); }

void CudaBulkEngine::publish_barriers(Builder& ir) const {
  run(ir, "fence.mbarrier_init.release.cluster;", {}, nullptr);
}

void CudaBulkEngine::prefetch_map(Builder& ir, Value* map, Value* chosen) const {
  run(ir, "prefetch.tensormap [$0];", {map}, chosen);
}

}  // namespace kiln::codegen::nvptx
