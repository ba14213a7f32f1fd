#include "cpu/sort_records.h"

#include "cpu/sort_function.h"

namespace kiln::codegen::cpu {
namespace {

// The bits of infinity, or where there is none of the greatest number.
uint64_t greatest_bits(ElementType element) {
  switch (element) {
    case ElementType::kF8E4M3:
      return 0x7e;
    case ElementType::kF8E5M2:
      return 0x7c;
    case ElementType::kF16:
      return 0x7c00;
    case ElementType::kBF16:
      return 0x7f80;
    case ElementType::kF32:
      return 0x7f800000;
    default:
      return 0x7ff0000000000000;
  }
}

// Sign and magnitude: negative numbers reversed, positive ones above them.
Value* float_keys(Builder& b, ElementType element, Value* x) {
  const auto width = static_cast<unsigned>(dsl::info(element).bits);
  const uint64_t sign = uint64_t{1} << (width - 1);
  Value* bits = b.CreateBitCast(x, like(x, b.getIntNTy(width)));
  auto* zero = int_constant(bits, 0);
  Value* magnitude = b.CreateAnd(bits, int_constant(bits, sign - 1));
  bits = b.CreateSelect(b.CreateICmpEQ(magnitude, zero), zero, bits);
  Value* negative = b.CreateICmpSLT(bits, zero);
  Value* keys = b.CreateSelect(negative, b.CreateNot(bits), b.CreateOr(bits, int_constant(bits, sign)));
  Value* is_nan = b.CreateICmpUGT(magnitude, int_constant(bits, greatest_bits(element)));
  return b.CreateSelect(is_nan, llvm::Constant::getAllOnesValue(bits->getType()), keys);
}

}  // namespace

Value* order_keys(Builder& b, ElementType element, bool descending, Value* x) {
  Value* keys = to_memory(b, x);
  if (dsl::is_float(element)) {
    keys = float_keys(b, element, x);
  } else if (dsl::info(element).is_signed) {
    const auto top = static_cast<unsigned>(dsl::info(element).bits - 1);
    keys = b.CreateXor(x, int_constant(x, uint64_t{1} << top));
  }
  return descending ? b.CreateNot(keys) : keys;
}

SortRow::SortRow(Context& context, ElementType element, int64_t capacity)
    : c(context),
      b(context.b),
      key_bytes_(dsl::info(element).bytes),
      key_type_(b.getIntNTy(8 * static_cast<unsigned>(key_bytes_))) {
  auto row_of = [&](ElementType type, int64_t count) {
    return allocate_slot(c, dsl::tile_type(type, {dsl::Expr(count)}));
  };
  keys_ = row_of(ElementType::kI64, capacity);
  spare_keys_ = row_of(ElementType::kI64, capacity);
  counts_ = row_of(ElementType::kU8, sort_counts_bytes(key_bytes_));
  if (shared()) return;
  indices_ = row_of(ElementType::kI32, capacity);
  spare_indices_ = row_of(ElementType::kI32, capacity);
}

Value* SortRow::place(const Slot& slot, llvm::Type* type, Value* index) {
  return b.CreateInBoundsGEP(type, slot_address(c, slot), index);
}

void SortRow::put(Value* at, Value* keys, Value* index) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(keys->getType());
  llvm::Type *wide = like(keys, b.getInt64Ty()), *narrow = like(keys, b.getInt32Ty());
  Value* indices = b.CreateTrunc(index, b.getInt32Ty());
  if (vector) {
    std::vector<llvm::Constant*> lanes;
    for (unsigned i = 0; i < vector->getNumElements(); ++i) lanes.push_back(b.getInt32(i));
    indices = b.CreateAdd(b.CreateVectorSplat(vector->getNumElements(), indices), llvm::ConstantVector::get(lanes));
  }
  keys = b.CreateZExt(keys, wide);
  if (shared()) {
    keys = b.CreateOr(b.CreateShl(keys, int_constant(keys, 32)), b.CreateZExt(indices, wide));
  } else {
    b.CreateAlignedStore(b.CreateZExtOrTrunc(indices, narrow), place(indices_, b.getInt32Ty(), at), llvm::Align(4));
  }
  b.CreateAlignedStore(keys, place(keys_, b.getInt64Ty(), at), llvm::Align(8));
}

void SortRow::sort(Value* count) {
  auto address = [&](const Slot& slot) { return slot_address(c, slot); };
  Value* none = llvm::ConstantPointerNull::get(b.getPtrTy());
  b.CreateCall(sort_function(c, key_bytes_), {address(keys_), address(spare_keys_), shared() ? none : address(indices_),
                                              shared() ? none : address(spare_indices_), address(counts_), count});
}

Value* SortRow::index_of(Value* record) {
  Value* index = shared()
                     ? b.CreateTrunc(b.CreateLoad(b.getInt64Ty(), place(keys_, b.getInt64Ty(), record)), b.getInt32Ty())
                     : static_cast<Value*>(b.CreateLoad(b.getInt32Ty(), place(indices_, b.getInt32Ty(), record)));
  return b.CreateZExt(index, b.getInt64Ty());
}

Value* SortRow::key_of(Value* record) {
  Value* key = b.CreateLoad(b.getInt64Ty(), place(keys_, b.getInt64Ty(), record));
  return shared() ? b.CreateTrunc(b.CreateLShr(key, b.getInt64(32)), key_type_) : key;
}

}  // namespace kiln::codegen::cpu
