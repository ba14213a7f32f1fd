// sort and topk. Each element becomes a record: its key, an int that orders as the op wants it, above its index, which
// makes equal keys differ and keeps their order. Sorted records say which element goes where; elements and values are
// fetched from shared memory. Padding has the greatest keys and indices.
//
// Where nobody wants to know where elements came from, a record is the key alone, if it tells the element: of ints, and
// of floats without -0 and unusual NaN. Whether a tile of floats has such is seen when it is there; there is code for
// both.
#include "elementwise/order_keys.h"
#include "gpu/all_threads.h"
#include "gpu/branches.h"
#include "gpu/layout/algebra.h"
#include "gpu/select.h"
#include "gpu/sort_network.h"
#include "gpu/staged_tile.h"
#include "passes/op_builder.h"

namespace kiln::codegen::gpu {
namespace {

// Shorter rows are not worth code for both.
constexpr int64_t kLeastForKeys = 512;

class Sorting {
 public:
  Sorting(Context& c, const Op& op, int axis, bool descending)
      : c_(c),
        b_(c.b),
        op_(op),
        axis_(axis),
        descending_(descending),
        element_(c.type(op.operands[0]).element),
        layout_(c.placement.wanted.at(&op)) {}

  bool is_float() const { return dsl::is_float(element_); }
  bool is_long() const { return extent() >= kLeastForKeys; }

  // Records in order, with the elements' places or without.
  Result<void> sort(bool with_places) {
    auto elements = c_.get(op_.operands[0], layout_);
    if (!elements) return elements.error();
    elements_ = std::move(*elements);
    auto sorted = sorted_records(elements_, layout_, with_places ? index_bits() : 0);
    if (!sorted) return sorted.error();
    sorted_ = std::move(*sorted);
    has_places_ = with_places;
    return {};
  }

  // The operands' own elements in their new places.
  void define_elements() {
    c_.define(op_.results[0], has_places_ && is_float() ? moved(elements_, c_.type(op_.operands[0]), sorted_)
                                                        : told_by(sorted_, has_places_ ? index_bits() : 0));
  }

  // Floats in order, by their keys alone if these tell them.
  Result<void> define_floats() {
    const Layout from = unordered_layout();
    auto elements = c_.get(op_.operands[0], from);
    if (!elements) return elements.error();
    const auto with_places = [&]() -> Result<Registers> {
      auto ordered = convert(c_, *elements, c_.type(op_.operands[0]), from, layout_);
      if (!ordered) return ordered;
      auto sorted = sorted_records(*ordered, layout_, index_bits());
      if (!sorted) return sorted;
      return moved(*ordered, c_.type(op_.operands[0]), *sorted);
    };
    const auto keys_alone = [&]() -> Result<Registers> {
      auto sorted = sorted_records(*elements, from, 0);
      if (!sorted) return sorted;
      return told_by(*sorted, 0);
    };
    auto out = emit_either(c_, are_any_ambiguous(*elements), "sort.places", with_places, keys_alone);
    if (!out) return out.error();
    c_.define(op_.results[0], std::move(*out));
    return {};
  }

  Result<void> define_values() {
    auto values = c_.get(op_.operands[1], layout_);
    if (!values) return values.error();
    c_.define(op_.results[1], moved(*values, c_.type(op_.operands[1]), sorted_));
    return {};
  }

  void define_indices(ValueId id) {
    Registers out;
    for (Value* x : sorted_) out.push_back(index(x));
    c_.define(id, std::move(out));
  }

 private:
  const Layout& home() const { return *c_.placement.home[op_.results[0]]; }
  llvm::Type* key_type() const { return b_.getIntNTy(8 * static_cast<unsigned>(dsl::info(element_).bytes)); }
  int64_t extent() const { return dsl::concrete_shape(c_.type(op_.operands[0]))[static_cast<size_t>(axis_)]; }
  int index_bits() const { return layout_.axis_bits(axis_); }

  // A layout in which the elements of a row are at hand, in any order: keys are sorted from there.
  Layout unordered_layout() const {
    const auto& at_hand = c_.placement.home[op_.operands[0]];
    const bool is_one_row = layout_.element_bits() == layout_.axis_bits(axis_);
    return at_hand && at_hand->injective() && layout_.injective() && is_one_row ? *at_hand : layout_;
  }

  // i1, the same in all threads.
  Value* are_any_ambiguous(const Registers& elements) {
    Value* any = b_.getFalse();
    for (Value* x : elements) any = b_.CreateOr(any, are_ambiguous(b_, element_, x));
    const auto either = [&](Value* x, Value* y) { return b_.CreateOr(x, y); };
    return b_.CreateIsNotNull(over_all_threads(c_, {{b_.CreateZExt(any, b_.getInt32Ty()), either}})[0]);
  }

  Result<Registers> sorted_records(const Registers& elements, const Layout& from, int index_bits) {
    Registers records;
    for (size_t reg = 0; reg < elements.size(); ++reg) records.push_back(record(elements, from, reg, index_bits));
    const int bits = static_cast<int>(key_type()->getIntegerBitWidth()) + index_bits;
    return sort_records(c_, op_, std::move(records), bits, layout_, axis_, home().shape()[static_cast<size_t>(axis_)]);
  }

  Value* record(const Registers& elements, const Layout& from, size_t reg, int index_bits) {
    const int bits = static_cast<int>(key_type()->getIntegerBitWidth()) + index_bits;
    llvm::Type* type = b_.getIntNTy(bits <= 32 ? 32 : bits <= 64 ? 64 : 128);
    Value* key = order_keys(b_, element_, descending_, elements[reg]);
    Value* coordinate = c_.coordinate(from, reg, axis_);
    if (extent() != int64_t{1} << layout_.axis_bits(axis_)) {
      Value* inside = b_.CreateICmpULT(coordinate, b_.getInt32(static_cast<uint32_t>(extent())));
      key = b_.CreateSelect(inside, key, llvm::Constant::getAllOnesValue(key->getType()));
    }
    key = b_.CreateZExt(key, type);
    if (index_bits == 0) return key;
    return b_.CreateOr(b_.CreateShl(key, static_cast<uint64_t>(index_bits)), b_.CreateZExt(coordinate, type));
  }

  // The elements that have the records' keys.
  Registers told_by(const Registers& records, int index_bits) {
    Registers out;
    for (Value* x : records) {
      Value* key = b_.CreateTrunc(b_.CreateLShr(x, static_cast<uint64_t>(index_bits)), key_type());
      Value* bits = elements_of(b_, element_, descending_, key);
      out.push_back(is_float() ? b_.CreateBitCast(bits, register_type(b_.getContext(), dsl::scalar_type(element_)))
                               : from_memory(b_, bits, dsl::scalar_type(element_)));
    }
    return out;
  }

  Value* index(Value* record) {
    return b_.CreateAnd(b_.CreateTrunc(record, b_.getInt32Ty()), b_.getInt32((1u << index_bits()) - 1));
  }

  // Of records with places.
  Registers moved(const Registers& registers, const dsl::Type& type, const Registers& sorted) {
    const std::vector<int64_t> padded = layout_.shape();
    StagedTile tile(c_, dsl::scalar_type(type.element), padded);
    tile.write(registers, layout_, padded);
    Registers out;
    for (size_t reg = 0; reg < sorted.size(); ++reg) {
      llvm::SmallVector<Value*, 5> at;
      for (int axis = 0; axis < layout_.rank(); ++axis) {
        at.push_back(axis == axis_ ? index(sorted[reg]) : c_.coordinate(home(), reg, axis));
      }
      out.push_back(tile.read(at));
    }
    return out;
  }

  Context& c_;
  Builder& b_;
  const Op& op_;
  const int axis_;
  const bool descending_;
  const ElementType element_;
  const Layout& layout_;
  Registers elements_, sorted_;
  bool has_places_ = false;
};

}  // namespace

Result<void> lower_sort(Context& c, const Op& op) {
  Sorting sorting(c, op, static_cast<int>(int_attr(op, 0)), int_attr(op, 1) != 0);
  const bool has_values = op.results.size() > 1;
  if (!has_values && sorting.is_float() && sorting.is_long()) return sorting.define_floats();
  if (auto done = sorting.sort(has_values || sorting.is_float()); !done) return done;
  sorting.define_elements();
  return has_values ? sorting.define_values() : Result<void>();
}

Result<void> lower_topk(Context& c, const Op& op) {
  if (auto found = c.placement.selected.find(&op); found != c.placement.selected.end()) {
    return lower_selection(c, op, found->second);
  }
  const bool wants_indices = c.uses(op.results[1]) > 0;
  Sorting sorting(c, op, static_cast<int>(int_attr(op, 1)), int_attr(op, 2) != 0);
  if (auto done = sorting.sort(wants_indices || sorting.is_float()); !done) return done;
  if (wants_indices) sorting.define_indices(op.results[1]);
  sorting.define_elements();
  return {};
}

}  // namespace kiln::codegen::gpu
