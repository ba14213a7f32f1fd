#include "cpu/sort_records.h"

#include "cpu/sort_function.h"
#include "cpu/sort_network.h"

namespace kiln::codegen::cpu {
namespace {

// Above, the steps of a network outweigh the passes over digits.
constexpr int64_t kNetworkRecords = 4096;

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

// The bits of the NaN that ops make.
uint64_t nan_bits(ElementType element) {
  const uint64_t infinity = greatest_bits(element);
  switch (element) {
    case ElementType::kF8E4M3:
      return 0x7f;
    case ElementType::kF8E5M2:
      return 0x7e;
    default:
      // The highest bit of the fraction.
      return infinity | (infinity & ~(infinity << 1)) >> 1;
  }
}

Value* bits_of(Builder& b, ElementType element, Value* x) {
  return b.CreateBitCast(x, like(x, b.getIntNTy(static_cast<unsigned>(dsl::info(element).bits))));
}

llvm::Constant* sign_of(ElementType element, Value* like_this) {
  return int_constant(like_this, uint64_t{1} << (dsl::info(element).bits - 1));
}

Value* is_nan(Builder& b, ElementType element, Value* bits) {
  Value* magnitude = b.CreateAnd(bits, b.CreateNot(sign_of(element, bits)));
  return b.CreateICmpUGT(magnitude, int_constant(bits, greatest_bits(element)));
}

// Sign and magnitude: negative numbers reversed, positive ones above them.
Value* float_keys(Builder& b, ElementType element, Value* x) {
  Value* bits = bits_of(b, element, x);
  Value* nan = is_nan(b, element, bits);
  auto *zero = int_constant(bits, 0), *sign = sign_of(element, bits);
  bits = b.CreateSelect(b.CreateICmpEQ(bits, sign), zero, bits);
  Value* negative = b.CreateICmpSLT(bits, zero);
  Value* keys = b.CreateSelect(negative, b.CreateNot(bits), b.CreateOr(bits, sign));
  return b.CreateSelect(nan, llvm::Constant::getAllOnesValue(bits->getType()), keys);
}

}  // namespace

Value* order_keys(Builder& b, ElementType element, bool descending, Value* x) {
  Value* keys = to_memory(b, x);
  if (dsl::is_float(element)) {
    keys = float_keys(b, element, x);
  } else if (dsl::info(element).is_signed) {
    keys = b.CreateXor(x, sign_of(element, x));
  }
  return descending ? b.CreateNot(keys) : keys;
}

Value* elements_of(Builder& b, ElementType element, bool descending, Value* keys) {
  if (descending) keys = b.CreateNot(keys);
  if (!dsl::is_float(element)) return dsl::info(element).is_signed ? b.CreateXor(keys, sign_of(element, keys)) : keys;
  Value* positive = b.CreateICmpSLT(keys, int_constant(keys, 0));
  Value* bits = b.CreateSelect(positive, b.CreateXor(keys, sign_of(element, keys)), b.CreateNot(keys));
  Value* nan = b.CreateICmpEQ(keys, llvm::Constant::getAllOnesValue(keys->getType()));
  return b.CreateSelect(nan, int_constant(keys, nan_bits(element)), bits);
}

Value* are_ambiguous(Builder& b, ElementType element, Value* x) {
  if (!dsl::is_float(element)) return nullptr;
  Value* bits = bits_of(b, element, x);
  Value* other_nan = b.CreateAnd(is_nan(b, element, bits), b.CreateICmpNE(bits, int_constant(bits, nan_bits(element))));
  return b.CreateOr(other_nan, b.CreateICmpEQ(bits, sign_of(element, bits)));
}

SortRow::SortRow(Context& context, ElementType element, int64_t capacity)
    : c(context),
      b(context.b),
      key_bytes_(dsl::info(element).bytes),
      capacity_(capacity),
      key_type_(b.getIntNTy(8 * static_cast<unsigned>(key_bytes_))) {
  auto row_of = [&](ElementType type, int64_t count) {
    return allocate_slot(c, dsl::tile_type(type, {dsl::Expr(count)}));
  };
  if (by_network()) {
    keys_ = row_of(ElementType::kI64, network_capacity(c, 64, capacity));
    return;
  }
  keys_ = row_of(ElementType::kI64, capacity);
  spare_keys_ = row_of(ElementType::kI64, capacity);
  counts_ = row_of(ElementType::kU8, sort_counts_bytes(key_bytes_));
  if (shared()) return;
  indices_ = row_of(ElementType::kI32, capacity);
  spare_indices_ = row_of(ElementType::kI32, capacity);
}

bool SortRow::by_network() const { return shared() && capacity_ <= kNetworkRecords; }

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
  if (by_network()) {
    b.CreateCall(sort_network(c, 64), {address(keys_), count});
    return;
  }
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
