#include "amdgcn/target_info.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace kiln::codegen::amdgcn {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr unsigned kGlobalSpace = 1;

// 16 bytes of zeros in the code object: where lanes look that have nothing to load.
constexpr char kNowhere[] = "kiln_nowhere";

Value* nowhere(Builder& ir) {
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  if (llvm::GlobalVariable* known = module.getNamedGlobal(kNowhere)) return known;
  auto* type = llvm::ArrayType::get(ir.getInt8Ty(), 16);
  auto* out = new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::InternalLinkage,
                                       llvm::Constant::getNullValue(type), kNowhere, nullptr,
                                       llvm::GlobalValue::NotThreadLocal, kGlobalSpace);
  out->setAlignment(llvm::Align(16));
  return out;
}

llvm::Align natural_alignment(llvm::Type* type) {
  return llvm::Align(std::max<uint64_t>(1, type->getPrimitiveSizeInBits().getFixedValue() / 8));
}

void note_reuse(llvm::Instruction& access, const gpu::GlobalAccess& how) {
  if (!is_used_once(how)) return;
  llvm::LLVMContext& context = access.getContext();
  auto* one = llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), 1));
  access.setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context, one));
}

}  // namespace

bool is_used_once(const gpu::GlobalAccess& access) {
  return access.cache == dsl::CacheHint::kStreaming || access.eviction == dsl::Eviction::kFirst;
}

Value* global_pointer(Builder& ir, Value* pointer) {
  return ir.CreateAddrSpaceCast(pointer, ir.getPtrTy(kGlobalSpace));
}

Value* emit_under(Builder& ir, Value* predicate, llvm::function_ref<Value*()> emit) {
  if (!predicate) return emit();
  llvm::BasicBlock* before = ir.GetInsertBlock();
  llvm::BasicBlock* after = llvm::BasicBlock::Create(ir.getContext(), "after", before->getParent());
  if (ir.GetInsertPoint() != before->end()) {
    after->splice(after->end(), before, ir.GetInsertPoint(), before->end());
    after->replaceSuccessorsPhiUsesWith(before, after);
  }
  auto* then = llvm::BasicBlock::Create(ir.getContext(), "then", before->getParent(), after);
  ir.SetInsertPoint(before);
  ir.CreateCondBr(predicate, then, after);
  ir.SetInsertPoint(then);
  Value* made = emit();
  then = ir.GetInsertBlock();
  ir.CreateBr(after);
  ir.SetInsertPoint(after, after->begin());
  if (!made) return nullptr;
  auto* out = ir.CreatePHI(made->getType(), 2);
  out->addIncoming(llvm::Constant::getNullValue(made->getType()), before);
  out->addIncoming(made, then);
  return out;
}

llvm::Function* AmdTargetInfo::create_kernel(llvm::Module& module, const std::string& name,
                                             llvm::ArrayRef<llvm::Type*> params, int threads) const {
  llvm::LLVMContext& context = module.getContext();
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), params, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
  function->setVisibility(llvm::GlobalValue::ProtectedVisibility);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  const std::string count = std::to_string(threads);
  function->addFnAttr("amdgpu-flat-work-group-size", count + "," + count);
  function->addFnAttr("uniform-work-group-size", "true");
  // Subnormals are kept, of f32 too.
  function->addFnAttr("denormal-fp-math", "ieee,ieee");
  function->addFnAttr("denormal-fp-math-f32", "ieee,ieee");
  // Memory of a device adds floats by itself; only that which it shares with the host over a bus would not.
  function->addFnAttr("amdgpu-unsafe-fp-atomics", "true");
  // What kernels do not ask for: each would take registers at the start, or a service of the HIP runtime.
  for (const char* unused :
       {"dispatch-ptr", "dispatch-id", "queue-ptr", "workitem-id-y", "workitem-id-z", "lds-kernel-id", "hostcall-ptr",
        "multigrid-sync-arg", "heap-ptr", "default-queue", "completion-action"})
    function->addFnAttr(std::string("amdgpu-no-") + unused);
  // Workgroups belong to no cluster: their numbers are not put together of two.
  if (processor_.matrix == Matrix::kWmma1250) function->addFnAttr("amdgpu-cluster-dims", "0,0,0");
  return function;
}

Value* AmdTargetInfo::thread_id(Builder& ir) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_workitem_id_x, {});
}

// Workgroup w runs on chiplet w % c as its number w / c. That chiplet's programs are a block of neighbours, of which
// the first chiplets have one more where c does not divide them all.
Value* AmdTargetInfo::dealt_program(Builder& ir, Value* workgroup) const {
  Value *count = num_programs(ir, 0), *c = ir.getInt32(static_cast<uint32_t>(chiplets_));
  Value *chiplet = ir.CreateURem(workgroup, c), *number = ir.CreateUDiv(workgroup, c);
  Value *share = ir.CreateUDiv(count, c), *larger = ir.CreateURem(count, c);
  Value* before = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, chiplet, larger);
  return ir.CreateAdd(ir.CreateAdd(ir.CreateMul(chiplet, share), before), number);
}

Value* AmdTargetInfo::program_id(Builder& ir, int axis) const {
  static constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::amdgcn_workgroup_id_x,
                                                 llvm::Intrinsic::amdgcn_workgroup_id_y,
                                                 llvm::Intrinsic::amdgcn_workgroup_id_z};
  Value* workgroup = ir.CreateIntrinsic(kIds[axis], {});
  return axis == 0 && chiplets_ > 1 ? dealt_program(ir, workgroup) : workgroup;
}

// The first hidden arguments are the numbers of workgroups along the axes, 32 bits each ("AMDGPU Usage", code object
// V5 metadata).
Value* AmdTargetInfo::num_programs(Builder& ir, int axis) const {
  Value* hidden = ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_implicitarg_ptr, {});
  auto* load = ir.CreateAlignedLoad(
      ir.getInt32Ty(), ir.CreateConstGEP1_64(ir.getInt8Ty(), hidden, 4 * static_cast<uint64_t>(axis)), llvm::Align(4));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ir.getContext(), {}));
  return load;
}

Value* AmdTargetInfo::warp_uniform(Builder& ir, Value* x) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_readfirstlane, {x->getType()}, {x});
}

bool AmdTargetInfo::takes_constraint(llvm::StringRef constraint, llvm::Type* type) const {
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  return constraint == "v" && (bits == 32 || bits == 64 || (bits == 16 && processor_.major < 11));
}

// Without a branch: lanes whose predicate is false load zeros from elsewhere.
Value* AmdTargetInfo::load_global(Builder& ir, llvm::Type* type, const gpu::GlobalAccess& access, Value* other) const {
  const auto from_pointer = [&] {
    Value* pointer = global_pointer(ir, access.pointer);
    if (access.predicate) pointer = ir.CreateSelect(access.predicate, pointer, nowhere(ir));
    auto* load = ir.CreateAlignedLoad(type, pointer, natural_alignment(type));
    note_reuse(*load, access);
    return load;
  };
  Value* load = access.offsets.base ? load_buffer(ir, type, access) : from_pointer();
  const auto* constant = llvm::dyn_cast_or_null<llvm::Constant>(other);
  const bool is_zero = !other || (constant && constant->isNullValue());
  return access.predicate && !is_zero ? ir.CreateSelect(access.predicate, load, other) : load;
}

namespace {

// Nothing is scheduled across it.
void fence_schedule(Builder& ir) { ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_sched_barrier, {ir.getInt32(0)}); }

}  // namespace

// A wave that multiplies goes before those that load, so that the matrix units are not without work.
void AmdTargetInfo::begin_products(Builder& ir) const {
  if (processor_.matrix != Matrix::kNone) ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_setprio, {ir.getInt16(1)});
}

// All reads of LDS are under way before the first product, each of which waits for its own operands alone: LLVM's
// scheduler would put reads where they are wanted, and a wave would wait for each. What mixes them
// (`sched_group_barrier`, `iglp_opt`) ends in the same order, after as much time as all else of compiling the kernel.
// Operands of WMMA, half of which are copies, would not fit into registers at once.
void AmdTargetInfo::end_operand_reads(Builder& ir) const {
  if (processor_.has_mfma()) fence_schedule(ir);
}

void AmdTargetInfo::end_products(Builder& ir) const {
  if (processor_.matrix != Matrix::kNone) ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_setprio, {ir.getInt16(0)});
}

void AmdTargetInfo::async_commit(Builder& ir) const { fence_schedule(ir); }

void AmdTargetInfo::store_global(Builder& ir, Value* value, const gpu::GlobalAccess& access) const {
  if (access.offsets.base) return store_buffer(ir, value, access);
  emit_under(ir, access.predicate, [&]() -> Value* {
    auto* store = ir.CreateAlignedStore(value, global_pointer(ir, access.pointer), natural_alignment(value->getType()));
    note_reuse(*store, access);
    return nullptr;
  });
}

}  // namespace kiln::codegen::amdgcn
