#include "nvptx/target_info.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include "nvptx/uniform_branches.h"

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr uint32_t kAllLanes = 0xffffffff;

Value* special_register(Builder& ir, llvm::Intrinsic::ID id) { return ir.CreateIntrinsic(ir.getInt32Ty(), id, {}); }

// ---- accesses to global memory, as inline assembly: LLVM knows no predicated ones ----

// A value of up to 16 bytes as words: of 32 bits, or one of 16 or 8 bits in a register of 16.
struct Words {
  unsigned count = 1;
  unsigned bits = 32;

  std::string suffix() const {
    const std::string vector = count == 1 ? "" : ".v" + std::to_string(count);
    return vector + ".b" + std::to_string(bits);
  }
  llvm::Type* type(Builder& ir) const { return ir.getIntNTy(bits < 16 ? 16 : bits); }
  const char* constraint() const { return bits == 64 ? "l" : bits == 32 ? "r" : "h"; }
};

Words words_of(llvm::Type* type) {
  const auto bits = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  if (bits <= 32) return {1, bits};
  return {bits / 32, 32};
}

llvm::SmallVector<Value*, 4> split(Builder& ir, Value* x, const Words& words) {
  Value* whole = ir.CreateBitCast(x, ir.getIntNTy(words.count * words.bits));
  llvm::SmallVector<Value*, 4> out;
  if (words.count == 1) {
    out.push_back(ir.CreateZExt(whole, words.type(ir)));
    return out;
  }
  Value* parts = ir.CreateBitCast(x, llvm::FixedVectorType::get(words.type(ir), words.count));
  for (unsigned i = 0; i < words.count; ++i) out.push_back(ir.CreateExtractElement(parts, i));
  return out;
}

Value* join(Builder& ir, llvm::ArrayRef<Value*> parts, const Words& words, llvm::Type* type) {
  if (words.count == 1) return ir.CreateBitCast(ir.CreateTrunc(parts[0], ir.getIntNTy(words.bits)), type);
  Value* out = llvm::PoisonValue::get(llvm::FixedVectorType::get(words.type(ir), words.count));
  for (unsigned i = 0; i < words.count; ++i) out = ir.CreateInsertElement(out, parts[i], i);
  return ir.CreateBitCast(out, type);
}

// "{$0, $1}", or "$0"
std::string operands(unsigned first, unsigned count) {
  std::string out;
  for (unsigned i = 0; i < count; ++i) out += (i ? ", $" : "$") + std::to_string(first + i);
  return count == 1 ? out : "{" + out + "}";
}

std::string load_modifiers(const gpu::GlobalAccess& access) {
  std::string out;
  if (access.cache == dsl::CacheHint::kGlobal) out += ".cg";
  if (access.cache == dsl::CacheHint::kStreaming) out += ".cs";
  const bool is_plain = out.empty();  // an instruction takes one or the other
  if (access.is_constant) out += ".nc";
  if (!is_plain) return out;
  if (access.eviction == dsl::Eviction::kFirst) out += ".L1::evict_first";
  if (access.eviction == dsl::Eviction::kLast) out += ".L1::evict_last";
  return out;
}

std::string store_modifiers(const gpu::GlobalAccess& access) {
  if (access.cache == dsl::CacheHint::kGlobal) return ".cg";
  if (access.cache == dsl::CacheHint::kStreaming) return ".cs";
  return "";
}

// Parameters that are used by their address, where they lie: without a copy.
void annotate_blocks(llvm::Function& function, llvm::ArrayRef<llvm::Type*> params) {
  llvm::LLVMContext& context = function.getContext();
  for (unsigned i = 0; i < params.size(); ++i) {
    if (!params[i]->isArrayTy()) continue;
    function.addParamAttr(i, llvm::Attribute::getWithByValType(context, params[i]));
    function.addParamAttr(i, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
    function.addParamAttr(i, llvm::Attribute::get(context, "nvvm.grid_constant"));
  }
}

}  // namespace

gpu::LaneFacts CudaTargetInfo::lane_facts() const {
  gpu::LaneFacts out;
  out.matrix_load = true;
  out.matrix_store = target_.units().stores_matrices;
  out.shared_bytes = target_.gpu->block_shared_bytes();
  return out;
}

llvm::Function* CudaTargetInfo::create_kernel(llvm::Module& module, const std::string& name,
                                              llvm::ArrayRef<llvm::Type*> params, int threads) const {
  llvm::LLVMContext& context = module.getContext();
  llvm::SmallVector<llvm::Type*, 16> types;
  for (llvm::Type* param : params) types.push_back(param->isArrayTy() ? llvm::PointerType::get(context, 0) : param);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr("nvvm.maxntid", std::to_string(threads));
  annotate_blocks(*function, params);
  return function;
}

Value* CudaTargetInfo::thread_id(Builder& ir) const {
  return special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
}

Value* CudaTargetInfo::program_id(Builder& ir, int axis) const {
  static constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                                 llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                                 llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  return special_register(ir, kIds[axis]);
}

Value* CudaTargetInfo::num_programs(Builder& ir, int axis) const {
  static constexpr llvm::Intrinsic::ID kIds[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x,
                                                 llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
                                                 llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_z};
  return special_register(ir, kIds[axis]);
}

Value* CudaTargetInfo::warp_uniform(Builder& ir, Value* x) const { return shuffle(ir, x, ir.getInt32(0)); }

Value* CudaTargetInfo::uniform_condition(Builder& ir, Value* x) const { return mark_uniform(ir, x); }

Value* CudaTargetInfo::shuffle(Builder& ir, Value* word, Value* lane) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                            {ir.getInt32(kAllLanes), word, lane, ir.getInt32(31)});
}

Value* CudaTargetInfo::shuffle_xor(Builder& ir, Value* word, unsigned mask) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32,
                            {ir.getInt32(kAllLanes), word, ir.getInt32(mask), ir.getInt32(31)});
}

void CudaTargetInfo::barrier(Builder& ir) const {
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {ir.getInt32(0)});
}

// Without it, a lane that left a loop of several returned later than the others, and ptxas 13.0 took the warp for one
// behind the call: what the lane wrote to shared memory came after the others' reads.
Value* CudaTargetInfo::any_lane(Builder& ir, Value* x) const {
  return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_vote_any_sync, {ir.getInt32(kAllLanes), x});
}

void CudaTargetInfo::warp_barrier(Builder& ir) const {
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {ir.getInt32(kAllLanes)});
}

bool CudaTargetInfo::takes_constraint(llvm::StringRef constraint, llvm::Type* type) const {
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  if (constraint == "h") return bits == 16;
  if (constraint == "r") return bits == 32;
  if (constraint == "f") return type->isFloatTy();
  if (constraint == "l") return bits == 64;
  return constraint == "d" && type->isDoubleTy();
}

// { .reg .pred p; setp.ne.b32 p, pred, 0; mov words = other; @p ld.global… words, [pointer]; }
Value* CudaTargetInfo::load_global(Builder& ir, llvm::Type* type, const gpu::GlobalAccess& access, Value* other) const {
  const Words words = words_of(type);
  const unsigned n = words.count;
  const std::string instruction = "ld.global" + load_modifiers(access) + words.suffix() + " " + operands(0, n);
  llvm::SmallVector<Value*, 8> in = {access.pointer};
  std::string text, constraints;
  for (unsigned i = 0; i < n; ++i) constraints += std::string(i ? ",=" : "=") + words.constraint();
  constraints += ",l";
  if (access.predicate) {
    // The operands' defaults are tied to the results.
    text = "{ .reg .pred p; setp.ne.b32 p, $" + std::to_string(n + 1) + ", 0; @p " + instruction + ", [$" +
           std::to_string(n) + "]; }";
    constraints += ",r";
    in.push_back(ir.CreateZExt(access.predicate, ir.getInt32Ty()));
    Value* fallback = other ? other : llvm::Constant::getNullValue(type);
    for (Value* part : split(ir, fallback, words)) in.push_back(part);
    for (unsigned i = 0; i < n; ++i) constraints += "," + std::to_string(i);
  } else {
    text = instruction + ", [$" + std::to_string(n) + "];";
  }
  constraints += ",~{memory}";
  llvm::Type* result = words.type(ir);
  if (n > 1) result = llvm::StructType::get(ir.getContext(), llvm::SmallVector<llvm::Type*, 4>(n, words.type(ir)));
  llvm::SmallVector<llvm::Type*, 8> types;
  for (Value* x : in) types.push_back(x->getType());
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints, true);
  Value* loaded = ir.CreateCall(assembly, in);
  llvm::SmallVector<Value*, 4> parts = {loaded};
  if (n > 1) {
    parts.clear();
    for (unsigned i = 0; i < n; ++i) parts.push_back(ir.CreateExtractValue(loaded, i));
  }
  return join(ir, parts, words, type);
}

void CudaTargetInfo::store_global(Builder& ir, Value* value, const gpu::GlobalAccess& access) const {
  const Words words = words_of(value->getType());
  const unsigned n = words.count;
  llvm::SmallVector<Value*, 8> in = {access.pointer};
  std::string constraints = "l";
  for (Value* part : split(ir, value, words)) {
    in.push_back(part);
    constraints += std::string(",") + words.constraint();
  }
  std::string text = "st.global" + store_modifiers(access) + words.suffix() + " [$0], " + operands(1, n) + ";";
  if (access.predicate) {
    text = "{ .reg .pred p; setp.ne.b32 p, $" + std::to_string(n + 1) + ", 0; @p " + text + " }";
    in.push_back(ir.CreateZExt(access.predicate, ir.getInt32Ty()));
    constraints += ",r";
  }
  constraints += ",~{memory}";
  llvm::SmallVector<llvm::Type*, 8> types;
  for (Value* x : in) types.push_back(x->getType());
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(ir.getVoidTy(), types, false), text, constraints, true);
  ir.CreateCall(assembly, in);
}

}  // namespace kiln::codegen::nvptx
