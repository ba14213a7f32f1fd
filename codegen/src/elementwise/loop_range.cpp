#include "elementwise/loop_range.h"

namespace kiln::codegen {
namespace {

// More iterations than any loop ends with; that many more do not wrap.
constexpr uint64_t kEndless = uint64_t{1} << 62;

// Distances are exact without a sign, whatever that of the index.
LoopRange count_iterations(Builder& ir, bool is_signed, Value* start, Value* end, Value* step) {
  Value* is_any = is_signed ? ir.CreateICmpSLT(start, end) : ir.CreateICmpULT(start, end);
  Value* before_last = ir.CreateUDiv(ir.CreateSub(ir.CreateSub(end, start), ir.getInt64(1)), step);
  before_last = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, before_last, ir.getInt64(kEndless));
  Value* count = ir.CreateSelect(is_any, ir.CreateAdd(before_last, ir.getInt64(1)), ir.getInt64(0));
  return {ir.getInt64(0), count, ir.getInt64(1), start, step};
}

}  // namespace

Value* LoopRange::index(Builder& ir, Value* count, ElementType type) const {
  Value* wide = stride ? ir.CreateAdd(first, ir.CreateMul(count, stride)) : count;
  return ir.CreateTrunc(wide, ir.getIntNTy(static_cast<unsigned>(dsl::info(type).bits)));
}

LoopRange make_loop_range(Builder& ir, ElementType type, Value* start, Value* end, Value* step) {
  const dsl::ElementTypeInfo& element = dsl::info(type);
  const auto wide = [&](Value* x) {
    return element.is_signed ? ir.CreateSExt(x, ir.getInt64Ty()) : ir.CreateZExt(x, ir.getInt64Ty());
  };
  const auto most = element.is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax;
  Value* by = ir.CreateBinaryIntrinsic(most, wide(step), ir.getInt64(1));
  if (element.bits < 64) return {wide(start), wide(end), by};
  return count_iterations(ir, element.is_signed, start, end, by);
}

}  // namespace kiln::codegen
