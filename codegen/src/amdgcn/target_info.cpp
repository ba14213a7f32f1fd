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

Value* nowhere(Builder& b) {
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  if (llvm::GlobalVariable* known = module.getNamedGlobal(kNowhere)) return known;
  auto* type = llvm::ArrayType::get(b.getInt8Ty(), 16);
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

Value* global_pointer(Builder& b, Value* pointer) { return b.CreateAddrSpaceCast(pointer, b.getPtrTy(kGlobalSpace)); }

Value* emit_under(Builder& b, Value* predicate, llvm::function_ref<Value*()> emit) {
  if (!predicate) return emit();
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "after", before->getParent());
  if (b.GetInsertPoint() != before->end()) {
    after->splice(after->end(), before, b.GetInsertPoint(), before->end());
    after->replaceSuccessorsPhiUsesWith(before, after);
  }
  auto* then = llvm::BasicBlock::Create(b.getContext(), "then", before->getParent(), after);
  b.SetInsertPoint(before);
  b.CreateCondBr(predicate, then, after);
  b.SetInsertPoint(then);
  Value* made = emit();
  then = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after, after->begin());
  if (!made) return nullptr;
  auto* out = b.CreatePHI(made->getType(), 2);
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
  return function;
}

Value* AmdTargetInfo::thread_id(Builder& b) const {
  return b.CreateIntrinsic(llvm::Intrinsic::amdgcn_workitem_id_x, {}, {});
}

// Workgroup w runs on chiplet w % c as its number w / c. That chiplet's programs are a block of neighbours, of which
// the first chiplets have one more where c does not divide them all.
Value* AmdTargetInfo::dealt_program(Builder& b, Value* workgroup) const {
  Value *count = num_programs(b, 0), *c = b.getInt32(static_cast<uint32_t>(chiplets_));
  Value *chiplet = b.CreateURem(workgroup, c), *number = b.CreateUDiv(workgroup, c);
  Value *share = b.CreateUDiv(count, c), *larger = b.CreateURem(count, c);
  Value* before = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, chiplet, larger);
  return b.CreateAdd(b.CreateAdd(b.CreateMul(chiplet, share), before), number);
}

Value* AmdTargetInfo::program_id(Builder& b, int axis) const {
  static constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::amdgcn_workgroup_id_x,
                                                 llvm::Intrinsic::amdgcn_workgroup_id_y,
                                                 llvm::Intrinsic::amdgcn_workgroup_id_z};
  Value* workgroup = b.CreateIntrinsic(kIds[axis], {}, {});
  return axis == 0 && chiplets_ > 1 ? dealt_program(b, workgroup) : workgroup;
}

// The first hidden arguments are the numbers of workgroups along the axes, 32 bits each ("AMDGPU Usage", code object
// V5 metadata).
Value* AmdTargetInfo::num_programs(Builder& b, int axis) const {
  Value* hidden = b.CreateIntrinsic(llvm::Intrinsic::amdgcn_implicitarg_ptr, {}, {});
  auto* load = b.CreateAlignedLoad(
      b.getInt32Ty(), b.CreateConstGEP1_64(b.getInt8Ty(), hidden, 4 * static_cast<uint64_t>(axis)), llvm::Align(4));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b.getContext(), {}));
  return load;
}

Value* AmdTargetInfo::warp_uniform(Builder& b, Value* x) const {
  return b.CreateIntrinsic(llvm::Intrinsic::amdgcn_readfirstlane, {x->getType()}, {x});
}

bool AmdTargetInfo::takes_constraint(llvm::StringRef constraint, llvm::Type* type) const {
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  return constraint == "v" && (bits == 32 || bits == 64 || (bits == 16 && processor_.major < 11));
}

// Without a branch: lanes whose predicate is false load zeros from elsewhere.
Value* AmdTargetInfo::load_global(Builder& b, llvm::Type* type, const gpu::GlobalAccess& access, Value* other) const {
  const auto from_pointer = [&] {
    Value* pointer = global_pointer(b, access.pointer);
    if (access.predicate) pointer = b.CreateSelect(access.predicate, pointer, nowhere(b));
    auto* load = b.CreateAlignedLoad(type, pointer, natural_alignment(type));
    note_reuse(*load, access);
    return load;
  };
  Value* load = access.offsets.base ? load_buffer(b, type, access) : from_pointer();
  const auto* constant = llvm::dyn_cast_or_null<llvm::Constant>(other);
  const bool is_zero = !other || (constant && constant->isNullValue());
  return access.predicate && !is_zero ? b.CreateSelect(access.predicate, load, other) : load;
}

namespace {

// Nothing is scheduled across it.
void fence_schedule(Builder& b) { b.CreateIntrinsic(llvm::Intrinsic::amdgcn_sched_barrier, {}, {b.getInt32(0)}); }

}  // namespace

// A wave that multiplies goes before those that load, so that the matrix units are not without work.
void AmdTargetInfo::begin_products(Builder& b) const {
  if (processor_.matrix != Matrix::kNone) b.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_setprio, {}, {b.getInt16(1)});
}

// All reads of LDS are under way before the first product, each of which waits for its own operands alone: LLVM's
// scheduler would put reads where they are wanted, and a wave would wait for each. What mixes them
// (`sched_group_barrier`, `iglp_opt`) ends in the same order, after as much time as all else of compiling the kernel.
// Operands of WMMA, half of which are copies, would not fit into registers at once.
void AmdTargetInfo::end_operand_reads(Builder& b) const {
  if (processor_.matrix == Matrix::kMfma90a || processor_.matrix == Matrix::kMfma942) fence_schedule(b);
}

void AmdTargetInfo::end_products(Builder& b) const {
  if (processor_.matrix != Matrix::kNone) b.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_setprio, {}, {b.getInt16(0)});
}

void AmdTargetInfo::async_commit(Builder& b) const { fence_schedule(b); }

void AmdTargetInfo::store_global(Builder& b, Value* value, const gpu::GlobalAccess& access) const {
  if (access.offsets.base) return store_buffer(b, value, access);
  emit_under(b, access.predicate, [&]() -> Value* {
    auto* store = b.CreateAlignedStore(value, global_pointer(b, access.pointer), natural_alignment(value->getType()));
    note_reuse(*store, access);
    return nullptr;
  });
}

}  // namespace kiln::codegen::amdgcn
