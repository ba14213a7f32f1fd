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
      : c(context), b(context.b), element_(element), descending_(descending), extent_(extent) {
    const bool wide = dsl::info(element).bytes > 4;
    type_ = b.getIntNTy(wide ? 64 : 32);
    slot_ = row_slot(c, dsl::scalar_type(wide ? ElementType::kI64 : ElementType::kI32),
                     network_capacity(c, wide ? 64 : 32, extent));
    if (dsl::is_float(element)) ambiguous_ = entry_alloca(c, b.getInt1Ty());
  }

  void reset() {
    if (ambiguous_) b.CreateStore(b.getFalse(), ambiguous_);
  }

  void put(Value* index, Value* x, Value* keys, Value* lanes) {
    Value* place = b.CreateInBoundsGEP(type_, slot_address(c, slot_), index);
    b.CreateAlignedStore(b.CreateZExt(keys, like(keys, type_)), place, llvm::Align(type_->getBitWidth() / 8));
    if (!ambiguous_) return;
    Value* any = are_ambiguous(b, element_, x);
    if (lanes) any = b.CreateAnd(any, lanes);
    if (any->getType()->isVectorTy()) any = b.CreateOrReduce(any);
    b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt1Ty(), ambiguous_), any), ambiguous_);
  }

  // i1: the keys tell the elements; null: they always do.
  Value* suffices() { return ambiguous_ ? b.CreateNot(b.CreateLoad(b.getInt1Ty(), ambiguous_)) : nullptr; }

  // The elements in order; `to` has room for whole vectors.
  void sort_into(Value* to) {
    Value* keys = slot_address(c, slot_);
    b.CreateCall(sort_network(c, static_cast<int>(type_->getBitWidth())), {keys, c.i64(extent_)});
    const int lanes = c.target.vector_bytes * 8 / static_cast<int>(type_->getBitWidth());
    llvm::Type* memory = b.getIntNTy(8 * static_cast<unsigned>(dsl::info(element_).bytes));
    auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(lanes));
    emit_loop(b, c.i64(0), c.i64(extent_), c.i64(lanes), "elements", nothing, [&](Value* i) {
      Value* some =
          b.CreateAlignedLoad(vector, b.CreateInBoundsGEP(type_, keys, i), llvm::Align(type_->getBitWidth() / 8));
      Value* elements = elements_of(b, element_, descending_, b.CreateTrunc(some, like(some, memory)));
      b.CreateAlignedStore(elements, b.CreateInBoundsGEP(memory, to, i),
                           llvm::Align(static_cast<uint64_t>(dsl::info(element_).bytes)));
    });
  }

 private:
  Context& c;
  Builder& b;
  const ElementType element_;
  const bool descending_;
  const int64_t extent_;
  llvm::IntegerType* type_;
  Slot slot_;
  Value* ambiguous_ = nullptr;
};

class RowSort {
 public:
  RowSort(Context& context, const Op& sort)
      : c(context),
        op(sort),
        axis_(static_cast<size_t>(std::get<int64_t>(op.attrs[0]))),
        descending_(std::get<int64_t>(op.attrs[1]) != 0),
        element_(c.type(op.operands[0]).element),
        extent_(dsl::concrete_shape(c.type(op.operands[0]))[axis_]),
        order_(c, op.operands[0], axis_) {
    order_.nest.choose_width(op.operands, kMaxWidth);
    for (ValueId operand : op.operands) {
      elements_.push_back(row_slot(c, c.type(operand), extent_));
      results_.push_back(allocate_slot(c, c.type(operand)));
    }
    if (op.operands.size() == 1 && extent_ > 1 && extent_ <= kNetworkKeys && results_[0].strides[axis_] == 1) {
      keys_.emplace(c, element_, descending_, extent_);
    }
    if (!keys_ || dsl::is_float(element_)) records_.emplace(c, element_, extent_);
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
    for (size_t i = 0; i < results_.size(); ++i) c.slots[op.results[i]] = results_[i];
    return {};
  }

 private:
  Result<void> take_in() {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      auto x = order_.evaluate(op.operands[i]);
      if (!x) return x.error();
      if (records_) order_.keep(elements_[i], c.type(op.operands[i]), *x);
      if (i > 0) continue;
      Value* keys = order_keys(c.b, element_, descending_, *x);
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
    auto by_keys = [&] { keys_->sort_into(order_.row(results_[0], c.type(op.operands[0]))); };
    if (!suffices) return by_keys();
    emit_if(c.b, suffices, "keys", nothing, [&] { by_keys(); });
    emit_if(c.b, c.b.CreateNot(suffices), "records", nothing, [&] {
      put_records();
      give_out_records();
    });
  }

  // The records of elements that are kept already.
  void put_records() {
    const dsl::Type& type = c.type(op.operands[0]);
    emit_loop(c.b, c.i64(0), c.i64(extent_), c.i64(1), "record", nothing, [&](Value* i) {
      Value* x = order_.pick(elements_[0], type, i);
      records_->put(i, order_keys(c.b, element_, descending_, x), i);
    });
  }

  void give_out_records() {
    records_->sort(c.i64(extent_));
    emit_loop(c.b, c.i64(0), c.i64(extent_), c.i64(1), "sorted", nothing, [&](Value* i) {
      Value* from = records_->index_of(i);
      for (size_t k = 0; k < results_.size(); ++k) {
        const dsl::Type& type = c.type(op.operands[k]);
        order_.put(results_[k], type, i, order_.pick(elements_[k], type, from));
      }
    });
  }

  Context& c;
  const Op& op;
  const size_t axis_;
  const bool descending_;
  const ElementType element_;
  const int64_t extent_;
  OrderNest order_;
  std::vector<Slot> elements_, results_;
  std::optional<KeyRow> keys_;
  std::optional<SortRow> records_;
};

}  // namespace

Result<void> lower_sort(Context& c, const Op& op) { return RowSort(c, op).emit(); }

}  // namespace kiln::codegen::cpu
