// Accesses to global memory by buffer instructions: an address in scalar registers, an offset of 32 bits in a lane's.
// Lanes whose predicate is false have an offset beyond the buffer's end, where the hardware loads zeros and stores
// nothing: there is no branch, and no other address to choose.
#include <llvm/IR/IntrinsicsAMDGPU.h>

#include "amdgcn/target_info.h"

namespace kiln::codegen::amdgcn {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr unsigned kResourceSpace = 8;  // of LLVM's pointers that are buffer resources ("AMDGPU Usage", address spaces)

// The last word of a resource ("Buffer Resource Descriptor" in AMD's ISA guides for Vega, CDNA 3, RDNA 3 and RDNA 4).
// gfx9: data of 32 bits, floats, which untyped accesses ignore but which must not be invalid. Later: the same as one
// format, and bounds by the offset in bytes (OOB_SELECT = 3). gfx1250 has no format, and the highest four bits alone
// are LLVM's to set.
uint32_t resource_flags(const Processor& processor) {
  if (processor.matrix == Matrix::kWmma1250) return 3;
  return processor.major == 9 ? uint32_t{7} << 12 | uint32_t{4} << 15 : uint32_t{22} << 12 | uint32_t{3} << 28;
}

// Bits of the cache policy that say that what is accessed is not used again ("AMDGPU Usage", memory model, of
// nontemporal accesses).
uint32_t cache_policy(const Processor& processor, const gpu::GlobalAccess& access) {
  constexpr uint32_t kGlc = 1, kSlc = 2, kDlc = 4, kNt942 = 2, kNt12 = 1;
  if (!is_used_once(access)) return 0;
  if (processor.major == 12) return kNt12;
  if (processor.major == 11) return kSlc | kDlc;
  return processor.matrix == Matrix::kMfma942 || processor.matrix == Matrix::kMfma950 ? kNt942 : kGlc | kSlc;
}

Value* resource(Builder& ir, const Processor& processor, const gpu::GlobalAccess& access) {
  Value* base = global_pointer(ir, access.offsets.base);
  llvm::Type* type = llvm::PointerType::get(ir.getContext(), kResourceSpace);
  return ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_make_buffer_rsrc, {type, base->getType()},
                            {base, ir.getInt16(0), ir.getInt64(kBufferBytes), ir.getInt32(resource_flags(processor))});
}

// The constant is added behind the choice, so that it becomes part of the instruction.
Value* offset_of(Builder& ir, const gpu::GlobalAccess& access) {
  Value* offset = access.offsets.by_thread;
  if (access.predicate) {
    offset = ir.CreateSelect(access.predicate, offset, ir.getInt32(static_cast<uint32_t>(kBufferBytes)));
  }
  return ir.CreateAdd(offset, ir.getInt32(static_cast<uint32_t>(access.offsets.constant)));
}

// As the instructions move them: a byte, a half word, or words.
llvm::Type* moved_type(Builder& ir, llvm::Type* type) {
  const auto bits = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  return bits <= 32 ? static_cast<llvm::Type*>(ir.getIntNTy(bits))
                    : llvm::FixedVectorType::get(ir.getInt32Ty(), bits / 32);
}

}  // namespace

Value* AmdTargetInfo::load_buffer(Builder& ir, llvm::Type* type, const gpu::GlobalAccess& access) const {
  Value* moved = ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_raw_ptr_buffer_load, {moved_type(ir, type)},
                                    {resource(ir, processor_, access), offset_of(ir, access), ir.getInt32(0),
                                     ir.getInt32(cache_policy(processor_, access))});
  return ir.CreateBitCast(moved, type);
}

void AmdTargetInfo::store_buffer(Builder& ir, Value* value, const gpu::GlobalAccess& access) const {
  llvm::Type* type = moved_type(ir, value->getType());
  ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_raw_ptr_buffer_store, {type},
                     {ir.CreateBitCast(value, type), resource(ir, processor_, access), offset_of(ir, access),
                      ir.getInt32(0), ir.getInt32(cache_policy(processor_, access))});
}

}  // namespace kiln::codegen::amdgcn
