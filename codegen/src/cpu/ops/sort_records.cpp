#include "cpu/ops/sort_records.h"

#include "cpu/ops/sort_function.h"
#include "cpu/ops/sort_network.h"

namespace kiln::codegen::cpu {
namespace {

// Above, the steps of a network outweigh the passes over digits.
constexpr int64_t kNetworkRecords = 4096;

}  // namespace

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
