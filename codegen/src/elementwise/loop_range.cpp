#include "elementwise/loop_range.h"

namespace kiln::codegen {
namespace {

// More iterations than any loop ends with; that many more do not wrap.
constexpr uint64_t kEndless = uint64_t{1} << 62;

// Distances are exact without a sign, whatever that of the index.
LoopRange count_iterations(Builder& b, bool is_signed, Value* start, Value* end, Value* step) {
  Value* is_any = is_signed ? b.CreateICmpSLT(start, end) : b.CreateICmpULT(start, end);
  Value* before_last = b.CreateUDiv(b.CreateSub(b.CreateSub(end, start), b.getInt64(1)), step);
  before_last = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, before_last, b.getInt64(kEndless));
  Value* count = b.CreateSelect(is_any, b.CreateAdd(before_last, b.getInt64(1)), b.getInt64(0));
  return {b.getInt64(0), count, b.getInt64(1), start, step};
}

}  // namespace

Value* LoopRange::index(Builder& b, Value* count, ElementType type) const {
  Value* wide = stride ? b.CreateAdd(first, b.CreateMul(count, stride)) : count;
  return b.CreateTrunc(wide, b.getIntNTy(static_cast<unsigned>(dsl::info(type).bits)));
}

LoopRange make_loop_range(Builder& b, ElementType type, Value* start, Value* end, Value* step) {
  const dsl::ElementTypeInfo& element = dsl::info(type);
  const auto wide = [&](Value* x) {
    return element.is_signed ? b.CreateSExt(x, b.getInt64Ty()) : b.CreateZExt(x, b.getInt64Ty());
  };
  const auto most = element.is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax;
  Value* by = b.CreateBinaryIntrinsic(most, wide(step), b.getInt64(1));
  if (element.bits < 64) return {wide(start), wide(end), by};
  return count_iterations(b, element.is_signed, start, end, by);
}

}  // namespace kiln::codegen
