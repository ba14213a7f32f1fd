// sort: row by row. Where the keys tell the elements and nothing goes with them, the keys alone are sorted; else keys
// with indices, by which the elements are picked then.
#include "cpu/ops/sort.h"

#include "cpu/ops/order_nest.h"
#include "cpu/ops/sort_network.h"
#include "cpu/ops/sort_records.h"

namespace kiln::codegen::cpu {

namespace {

constexpr int kMaxWidth = 32;
constexpr int64_t kNetworkKeys = 16384;  // above, passes over digits are faster

void nothing(llvm::Instruction*) {}

// A row of keys, of 32 or 64 bits, without indices.
class KeyRow {
 public:
  KeyRow(Context& context, ElementType element, bool descending, int64_t extent)
      : ctx(context), ir(context.ir), element_(element), descending_(descending), extent_(extent) {
    const bool wide = dsl::info(element).bytes > 4;
    type_ = ir.getIntNTy(wide ? 64 : 32);
    slot_ = row_slot(ctx, dsl::scalar_type(wide ? ElementType::kI64 : ElementType::kI32),
                     network_capacity(ctx, wide ? 64 : 32, extent));
    if (dsl::is_float(element)) ambiguous_ = entry_alloca(ctx, ir.getInt1Ty());
  }

  void reset() {
    if (ambiguous_) ir.CreateStore(ir.getFalse(), ambiguous_);
  }

  void put(Value* index, Value* x, Value* keys, Value* lanes) {
    Value* place = ir.CreateInBoundsGEP(type_, scratch_slot_address(ctx, slot_), index);
    ir.CreateAlignedStore(ir.CreateZExt(keys, like(keys, type_)), place, llvm::Align(type_->getBitWidth() / 8));
    if (!ambiguous_) return;
    Value* any = are_ambiguous(ir, element_, x);
    if (lanes) any = ir.CreateAnd(any, lanes);
    if (any->getType()->isVectorTy()) any = ir.CreateOrReduce(any);
    ir.CreateStore(ir.CreateOr(ir.CreateLoad(ir.getInt1Ty(), ambiguous_), any), ambiguous_);
  }

  // i1: the keys tell the elements; null: they always do.
  Value* suffices() { return ambiguous_ ? ir.CreateNot(ir.CreateLoad(ir.getInt1Ty(), ambiguous_)) : nullptr; }

  // The elements in order; `to` has room for whole vectors.
  void sort_into(Value* to) {
    Value* keys = scratch_slot_address(ctx, slot_);
    ir.CreateCall(sort_network(ctx, static_cast<int>(type_->getBitWidth())), {keys, ctx.i64(extent_)});
    const int lanes = ctx.target.vector_bytes * 8 / static_cast<int>(type_->getBitWidth());
    llvm::Type* memory = ir.getIntNTy(8 * static_cast<unsigned>(dsl::info(element_).bytes));
    auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(lanes));
    emit_loop(ir, ctx.i64(0), ctx.i64(extent_), ctx.i64(lanes), "elements", nothing, [&](Value* i) {
      Value* some =
          ir.CreateAlignedLoad(vector, ir.CreateInBoundsGEP(type_, keys, i), llvm::Align(type_->getBitWidth() / 8));
      Value* elements = elements_of(ir, element_, descending_, ir.CreateTrunc(some, like(some, memory)));
      ir.CreateAlignedStore(elements, ir.CreateInBoundsGEP(memory, to, i),
                            llvm::Align(static_cast<uint64_t>(dsl::info(element_).bytes)));
    });
  }

 private:
  Context& ctx;
  Builder& ir;
  const ElementType element_;
  const bool descending_;
  const int64_t extent_;
  llvm::IntegerType* type_;
  ScratchSlot slot_;
  Value* ambiguous_ = nullptr;
};

class RowSort {
 public:
  RowSort(Context& context, const Op& sort)
      : ctx(context),
        op(sort),
        axis_(static_cast<size_t>(std::get<int64_t>(op.attrs[0]))),
        descending_(std::get<int64_t>(op.attrs[1]) != 0),
        element_(ctx.type(op.operands[0]).element),
        extent_(dsl::concrete_shape(ctx.type(op.operands[0]))[axis_]),
        order_(ctx, op.operands[0], axis_) {
    order_.nest.choose_width(op.operands, kMaxWidth);
    for (ValueId operand : op.operands) {
      elements_.push_back(row_slot(ctx, ctx.type(operand), extent_));
      results_.push_back(allocate_scratch_slot(ctx, ctx.type(operand)));
    }
    if (op.operands.size() == 1 && extent_ > 1 && extent_ <= kNetworkKeys && results_[0].strides[axis_] == 1) {
      keys_.emplace(ctx, element_, descending_, extent_);
    }
    if (!keys_ || dsl::is_float(element_)) records_.emplace(ctx, element_, extent_);
  }

  Result<void> emit() {
    Nest::Body body;
    body.begin_row = [&]() -> Result<void> {
      if (keys_) keys_->reset();
      return {};
    };
    body.chunk = [&] { return take_in(); };
    body.end_row = [&]() -> Result<void> {
      give_out();
      return {};
    };
    if (auto done = order_.nest.walk(body, false); !done) return done;
    for (size_t i = 0; i < results_.size(); ++i) ctx.slots[op.results[i]] = results_[i];
    return {};
  }

 private:
  Result<void> take_in() {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      auto x = order_.evaluate(op.operands[i]);
      if (!x) return x.error();
      if (records_) order_.keep(elements_[i], ctx.type(op.operands[i]), *x);
      if (i > 0) continue;
      Value* keys = order_keys(ctx.ir, element_, descending_, *x);
      if (keys_) {
        keys_->put(order_.index(), *x, keys, order_.nest.lane_mask());
      } else {
        records_->put(order_.index(), keys, order_.index());
      }
    }
    return {};
  }

  void give_out() {
    if (!keys_) return give_out_records();
    Value* suffices = keys_->suffices();
    auto by_keys = [&] { keys_->sort_into(order_.row(results_[0], ctx.type(op.operands[0]))); };
    if (!suffices) return by_keys();
    emit_if(ctx.ir, suffices, "keys", nothing, [&] { by_keys(); });
    emit_if(ctx.ir, ctx.ir.CreateNot(suffices), "records", nothing, [&] {
      put_records();
      give_out_records();
    });
  }

  // The records of elements that are kept already.
  void put_records() {
    const dsl::Type& type = ctx.type(op.operands[0]);
    emit_loop(ctx.ir, ctx.i64(0), ctx.i64(extent_), ctx.i64(1), "record", nothing, [&](Value* i) {
      Value* x = order_.pick(elements_[0], type, i);
      records_->put(i, order_keys(ctx.ir, element_, descending_, x), i);
    });
  }

  void give_out_records() {
    records_->sort(ctx.i64(extent_));
    emit_loop(ctx.ir, ctx.i64(0), ctx.i64(extent_), ctx.i64(1), "sorted", nothing, [&](Value* i) {
      Value* from = records_->index_of(i);
      for (size_t k = 0; k < results_.size(); ++k) {
        const dsl::Type& type = ctx.type(op.operands[k]);
        order_.put(results_[k], type, i, order_.pick(elements_[k], type, from));
      }
    });
  }

  Context& ctx;
  const Op& op;
  const size_t axis_;
  const bool descending_;
  const ElementType element_;
  const int64_t extent_;
  OrderNest order_;
  std::vector<ScratchSlot> elements_, results_;
  std::optional<KeyRow> keys_;
  std::optional<SortRow> records_;
};

}  // namespace

Result<void> lower_sort(Context& ctx, const Op& op) { return RowSort(ctx, op).emit(); }

}  // namespace kiln::codegen::cpu
