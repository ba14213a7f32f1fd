#include "cpu/ops/sort_records.h"

#include "cpu/ops/sort_function.h"
#include "cpu/ops/sort_network.h"

namespace kiln::codegen::cpu {
namespace {

// Above, the steps of a network outweigh the passes over digits.
constexpr int64_t kNetworkRecords = 4096;

}  // namespace

SortRow::SortRow(Context& context, ElementType element, int64_t capacity)
    : ctx(context),
      ir(context.ir),
      key_bytes_(dsl::info(element).bytes),
      capacity_(capacity),
      key_type_(ir.getIntNTy(8 * static_cast<unsigned>(key_bytes_))) {
  auto row_of = [&](ElementType type, int64_t count) {
    return allocate_scratch_slot(ctx, dsl::tile_type(type, {dsl::Expr(count)}));
  };
  if (by_network()) {
    keys_ = row_of(ElementType::kI64, network_capacity(ctx, 64, capacity));
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

Value* SortRow::place(const ScratchSlot& slot, llvm::Type* type, Value* index) {
  return ir.CreateInBoundsGEP(type, scratch_slot_address(ctx, slot), index);
}

void SortRow::put(Value* at, Value* keys, Value* index) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(keys->getType());
  llvm::Type *wide = like(keys, ir.getInt64Ty()), *narrow = like(keys, ir.getInt32Ty());
  Value* indices = ir.CreateTrunc(index, ir.getInt32Ty());
  if (vector) {
    std::vector<llvm::Constant*> lanes;
    for (unsigned i = 0; i < vector->getNumElements(); ++i) lanes.push_back(ir.getInt32(i));
    indices = ir.CreateAdd(ir.CreateVectorSplat(vector->getNumElements(), indices), llvm::ConstantVector::get(lanes));
  }
  keys = ir.CreateZExt(keys, wide);
  if (shared()) {
    keys = ir.CreateOr(ir.CreateShl(keys, int_constant(keys, 32)), ir.CreateZExt(indices, wide));
  } else {
    ir.CreateAlignedStore(ir.CreateZExtOrTrunc(indices, narrow), place(indices_, ir.getInt32Ty(), at), llvm::Align(4));
  }
  ir.CreateAlignedStore(keys, place(keys_, ir.getInt64Ty(), at), llvm::Align(8));
}

void SortRow::sort(Value* count) {
  auto address = [&](const ScratchSlot& slot) { return scratch_slot_address(ctx, slot); };
  if (by_network()) {
    ir.CreateCall(sort_network(ctx, 64), {address(keys_), count});
    return;
  }
  Value* none = llvm::ConstantPointerNull::get(ir.getPtrTy());
  ir.CreateCall(sort_function(ctx, key_bytes_),
                {address(keys_), address(spare_keys_), shared() ? none : address(indices_),
                 shared() ? none : address(spare_indices_), address(counts_), count});
}

Value* SortRow::index_of(Value* record) {
  Value* index =
      shared() ? ir.CreateTrunc(ir.CreateLoad(ir.getInt64Ty(), place(keys_, ir.getInt64Ty(), record)), ir.getInt32Ty())
               : static_cast<Value*>(ir.CreateLoad(ir.getInt32Ty(), place(indices_, ir.getInt32Ty(), record)));
  return ir.CreateZExt(index, ir.getInt64Ty());
}

Value* SortRow::key_of(Value* record) {
  Value* key = ir.CreateLoad(ir.getInt64Ty(), place(keys_, ir.getInt64Ty(), record));
  return shared() ? ir.CreateTrunc(ir.CreateLShr(key, ir.getInt64(32)), key_type_) : key;
}

}  // namespace kiln::codegen::cpu
