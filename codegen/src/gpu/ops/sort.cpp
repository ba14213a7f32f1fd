// sort and topk. Each element becomes a record: its key, an int that orders as the op wants it, above its index, which
// makes equal keys differ and keeps their order. Sorted records say which element goes where; elements and values are
// fetched from shared memory, but for ints, which their keys tell: where nobody wants to know where these came from, a
// record is the key alone. Padding has the greatest keys and indices. Long rows of floats: sort_floats.cpp; long rows
// of which few are wanted: select.cpp.
#include "gpu/ops/sort.h"

#include "elementwise/order_keys.h"
#include "gpu/layout/algebra.h"
#include "gpu/ops/select.h"
#include "gpu/ops/sort_floats.h"
#include "gpu/ops/sort_network.h"
#include "gpu/shared/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

class Sorting {
 public:
  // `wants_places`: of ints too, where they came from.
  Sorting(Context& ctx, const Op& op, int axis, bool descending, bool wants_places)
      : ctx_(ctx),
        ir_(ctx.ir),
        op_(op),
        axis_(axis),
        descending_(descending),
        element_(ctx.type(op.operands[0]).element),
        layout_(ctx.placement.wanted.at(&op)),
        index_bits_(wants_places || dsl::is_float(element_) ? layout_.axis_bits(axis) : 0) {}

  Result<void> sort() {
    elements_ = ctx_.get(op_.operands[0], layout_);
    if (!elements_) return elements_.error();
    Registers records;
    for (size_t reg = 0; reg < elements_->size(); ++reg) records.push_back(record(reg));
    auto sorted = sort_records(ctx_, op_, std::move(records), record_bits(), layout_, axis_,
                               home().shape()[static_cast<size_t>(axis_)]);
    if (!sorted) return sorted.error();
    sorted_ = std::move(*sorted);
    return {};
  }

  // The operands' own elements in their new places.
  Result<void> define_elements() {
    if (!dsl::is_float(element_)) {
      Registers out;
      for (Value* x : sorted_) {
        Value* key = ir_.CreateTrunc(ir_.CreateLShr(x, static_cast<uint64_t>(index_bits_)), key_type());
        out.push_back(from_memory(ir_, elements_of(ir_, element_, descending_, key), dsl::scalar_type(element_)));
      }
      ctx_.define(op_.results[0], std::move(out));
      return {};
    }
    ctx_.define(op_.results[0], moved(*elements_, ctx_.type(op_.operands[0])));
    return {};
  }

  Result<void> define_values() {
    auto values = ctx_.get(op_.operands[1], layout_);
    if (!values) return values.error();
    ctx_.define(op_.results[1], moved(*values, ctx_.type(op_.operands[1])));
    return {};
  }

  void define_indices(ValueId id) {
    Registers out;
    for (Value* x : sorted_) out.push_back(index(x));
    ctx_.define(id, std::move(out));
  }

 private:
  const Layout& home() const { return *ctx_.placement.home[op_.results[0]]; }
  llvm::Type* key_type() const { return ir_.getIntNTy(8 * static_cast<unsigned>(dsl::info(element_).bytes)); }

  int record_bits() const { return static_cast<int>(key_type()->getIntegerBitWidth()) + index_bits_; }

  Value* record(size_t reg) {
    const int bits = record_bits();
    llvm::Type* type = ir_.getIntNTy(bits <= 32 ? 32 : bits <= 64 ? 64 : 128);
    Value* key = order_keys(ir_, element_, descending_, (*elements_)[reg]);
    Value* coordinate = ctx_.coordinate(layout_, reg, axis_);
    if (extent() != int64_t{1} << layout_.axis_bits(axis_)) {
      Value* inside = ir_.CreateICmpULT(coordinate, ir_.getInt32(static_cast<uint32_t>(extent())));
      key = ir_.CreateSelect(inside, key, llvm::Constant::getAllOnesValue(key->getType()));
    }
    key = ir_.CreateZExt(key, type);
    if (index_bits_ == 0) return key;
    return ir_.CreateOr(ir_.CreateShl(key, static_cast<uint64_t>(index_bits_)), ir_.CreateZExt(coordinate, type));
  }

  int64_t extent() const { return dsl::concrete_shape(ctx_.type(op_.operands[0]))[static_cast<size_t>(axis_)]; }

  Value* index(Value* record) {
    return ir_.CreateAnd(ir_.CreateTrunc(record, ir_.getInt32Ty()), ir_.getInt32((1u << index_bits_) - 1));
  }

  Registers moved(const Registers& registers, const dsl::Type& type) {
    const std::vector<int64_t> padded = layout_.shape();
    StagedTile tile(ctx_, dsl::scalar_type(type.element), padded);
    tile.write(registers, layout_, padded);
    Registers out;
    for (size_t reg = 0; reg < sorted_.size(); ++reg) {
      llvm::SmallVector<Value*, 5> at;
      for (int axis = 0; axis < layout_.rank(); ++axis) {
        at.push_back(axis == axis_ ? index(sorted_[reg]) : ctx_.coordinate(home(), reg, axis));
      }
      out.push_back(tile.read(at));
    }
    return out;
  }

  Context& ctx_;
  Builder& ir_;
  const Op& op_;
  const int axis_;
  const bool descending_;
  const ElementType element_;
  const Layout& layout_;
  const int index_bits_;
  Result<Registers> elements_ = Registers();
  Registers sorted_;
};

}  // namespace

Result<void> lower_sort(Context& ctx, const Op& op) {
  if (sorts_floats(ctx, op)) return lower_sort_of_floats(ctx, op);
  Sorting sorting(ctx, op, static_cast<int>(int_attr(op, 0)), int_attr(op, 1) != 0, op.results.size() > 1);
  if (auto done = sorting.sort(); !done) return done;
  if (auto done = sorting.define_elements(); !done || op.results.size() == 1) return done;
  return sorting.define_values();
}

Result<void> lower_topk(Context& ctx, const Op& op) {
  if (auto found = ctx.placement.selected.find(&op); found != ctx.placement.selected.end()) {
    return lower_selection(ctx, op, found->second);
  }
  const bool wants_indices = ctx.uses(op.results[1]) > 0;
  Sorting sorting(ctx, op, static_cast<int>(int_attr(op, 1)), int_attr(op, 2) != 0, wants_indices);
  if (auto done = sorting.sort(); !done) return done;
  if (wants_indices) sorting.define_indices(op.results[1]);
  return sorting.define_elements();
}

}  // namespace kiln::codegen::gpu
