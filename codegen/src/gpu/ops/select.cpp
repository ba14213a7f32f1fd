// Each element has a key, an int that orders as the op wants it; the least k of each row are to be found. Up to a bound
// (select_bounds.h) elements go into a list in shared memory, which is sorted.
//
// Of more equal keys than the list holds the first are taken: the index is the last word. Equal ints of which nobody
// wants the places are all alike: the list has those below the bound, and the bound beside them.
#include "gpu/ops/select.h"

#include <bit>

#include "elementwise/order_keys.h"
#include "gpu/analysis/all_threads.h"
#include "gpu/branches.h"
#include "gpu/layout/algebra.h"
#include "gpu/ops/select_bounds.h"
#include "gpu/ops/sort_network.h"
#include "gpu/shared/convert.h"
#include "gpu/shared/shared_memory.h"
#include "kiln/dsl/uses.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kLeastCandidates = 64, kMostCandidates = 2048, kCandidates = 4;  // so many for each that is wanted
constexpr int64_t kLeastExtent = 4;                                                // for each candidate
constexpr int64_t kMostRows = 4;                                                   // in turn, in every step
constexpr int64_t kListBytes = 32768;  // at most, of shared memory, and for what threads agree on

int log2_ceil(int64_t x) { return std::bit_width(static_cast<uint64_t>(x - 1)); }
int64_t k_of(const Op& op) { return number_attr(op, 0); }
int axis_of(const Op& op) { return static_cast<int>(int_attr(op, 1)); }

// What is sorted: a key above the index, where that matters.
struct RecordShape {
  int key_bits, index_bits;

  RecordShape(const dsl::Kernel& kernel, const Op& op, bool wants_places) {
    const dsl::Type& type = kernel.type(op.operands[0]);
    key_bits = 8 * dsl::info(type.element).bytes;
    const bool has_index = wants_places || dsl::is_float(type.element);
    index_bits = has_index ? log2_ceil(padded_shape(type)[static_cast<size_t>(axis_of(op))]) : 0;
  }
  int used() const { return key_bits + index_bits; }
  int bits() const { return used() <= 32 ? 32 : used() <= 64 ? 64 : 128; }
};

int64_t rows_of(const std::vector<int64_t>& shape, int axis) {
  int64_t out = 1;
  for (size_t i = 0; i < shape.size(); ++i) out *= i == static_cast<size_t>(axis) ? 1 : shape[i];
  return out;
}

// The list's accesses, in turn.
enum Phase : uint8_t { kClear, kCollect, kRead };

class Selection {
 public:
  Selection(Context& ctx, const Op& op, int64_t candidates, bool wants_places)
      : ctx_(ctx),
        ir_(ctx.ir),
        op_(op),
        element_(ctx.type(op.operands[0]).element),
        layout_(ctx.placement.wanted.at(&op)),
        list_layout_(sort_layout(candidates_shape(ctx.kernel, op, candidates), axis_of(op), ctx.block)),
        candidates_(candidates),
        record_(ctx.kernel, op, wants_places),
        key_words_(record_.key_bits > 32 ? 2 : 1),
        wide_key_(ir_.getIntNTy(static_cast<unsigned>(32 * key_words_))),
        record_type_(ir_.getIntNTy(static_cast<unsigned>(record_.bits()))),
        counts_(ir_, 4 * rows_of(layout_.shape(), axis_of(op))),
        list_(ir_, rows_of(layout_.shape(), axis_of(op)) * candidates * record_.bits() / 8) {}

  Result<void> run() {
    auto elements = ctx_.get(op_.operands[0], layout_);
    if (!elements) return elements.error();
    for (size_t reg = 0; reg < elements->size(); ++reg) keys_.push_back(key(reg, (*elements)[reg]));
    find_rows();
    if (dsl::is_float(element_)) put_aside(*elements);
    if (auto done = find_bounds(); !done) return done;
    clear();
    for (const Row& row : rows_) collect(row);
    return sort_list();
  }

  void define_indices(ValueId id) {
    Registers out;
    for (Value* x : sorted_) out.push_back(index_of(x));
    ctx_.define(id, std::move(out));
  }

  Result<void> define_elements(ValueId id) {
    Registers out;
    for (Value* x : sorted_) {
      Value* key = ir_.CreateTrunc(ir_.CreateLShr(x, static_cast<uint64_t>(record_.index_bits)), key_type());
      Value* bits = elements_of(ir_, element_, is_largest(), key);
      out.push_back(aside_ ? ir_.CreateBitCast(bits, memory()) : bits);
    }
    if (aside_) {
      auto exact = emit_if(ctx_, any_ambiguous_, "select.elements", out, [&]() -> Result<Registers> {
        Registers loaded;
        for (size_t reg = 0; reg < sorted_.size(); ++reg) {
          Value* row = row_number(*ctx_.placement.home[id], reg);
          auto* load = ir_.CreateLoad(memory(), place_aside(row, index_of(sorted_[reg])));
          aside_->mark(load, SharedBuffer::Access::kRead, kRead);
          loaded.push_back(load);
        }
        return loaded;
      });
      if (!exact) return exact.error();
      out = std::move(*exact);
    }
    for (Value*& x : out) x = from_memory(ir_, x, dsl::scalar_type(element_));
    ctx_.define(id, std::move(out));
    return {};
  }

 private:
  struct Row {
    int64_t number = 0;  // row-major, in padded extents
    std::vector<size_t> registers{};
    Value *bound = nullptr, *last = nullptr;  // up to this key are the candidates, of its equals up to this index
  };
  bool is_largest() const { return int_attr(op_, 2) != 0; }
  bool has_index() const { return record_.index_bits > 0; }
  llvm::Type* key_type() const { return ir_.getIntNTy(static_cast<unsigned>(record_.key_bits)); }
  llvm::Type* memory() const { return memory_type(ir_.getContext(), element_, false); }
  int64_t padded_extent() const { return int64_t{1} << layout_.axis_bits(axis_of(op_)); }
  Value* u32(int64_t x) { return ir_.getInt32(static_cast<uint32_t>(x)); }
  llvm::Constant* ones(llvm::Type* type) { return llvm::Constant::getAllOnesValue(type); }
  Value* index(size_t reg) { return ctx_.coordinate(layout_, reg, axis_of(op_)); }
  Value* index_of(Value* record) {
    return ir_.CreateAnd(ir_.CreateTrunc(record, ir_.getInt32Ty()), ir_.getInt32((1u << record_.index_bits) - 1));
  }

  // Padding comes last.
  Value* key(size_t reg, Value* element) {
    Value* key = order_keys(ir_, element_, is_largest(), element);
    if (Value* inside = ctx_.in_tile(layout_, reg, ctx_.type(op_.operands[0]))) {
      key = ir_.CreateSelect(inside, key, ones(key->getType()));
    }
    return ir_.CreateZExt(key, wide_key_);
  }

  // Where keys do not tell all elements, these are kept: an element at its row and index.
  void put_aside(const Registers& elements) {
    const auto either = [&](Value* x, Value* y) { return ir_.CreateOr(x, y); };
    Value* ambiguous = ir_.getFalse();
    for (Value* x : elements) ambiguous = ir_.CreateOr(ambiguous, are_ambiguous(ir_, element_, x));
    any_ambiguous_ =
        ir_.CreateIsNotNull(over_all_threads(ctx_, {{ir_.CreateZExt(ambiguous, ir_.getInt32Ty()), either}})[0]);
    aside_.emplace(ir_, (int64_t{1} << layout_.element_bits()) * dsl::info(element_).bytes);
    aside_->touch(ir_, SharedBuffer::Access::kWrite, kCollect);
    emit_if(ctx_, any_ambiguous_, "select.aside", [&] {
      for (const Row& row : rows_) {
        for (size_t reg : row.registers) {
          auto* store = ir_.CreateStore(elements[reg], place_aside(u32(row.number), index(reg)));
          aside_->mark(store, SharedBuffer::Access::kWrite, kCollect);
        }
      }
    });
  }
  Value* place_aside(Value* row, Value* index) {
    return ir_.CreateGEP(memory(), aside_->pointer(), ir_.CreateAdd(ir_.CreateMul(row, u32(padded_extent())), index));
  }

  void find_rows() {
    const dsl::Type& type = ctx_.type(op_.operands[0]);
    const std::vector<int64_t> extents = dsl::concrete_shape(type), padded = layout_.shape();
    std::map<int64_t, Row> rows;
    for (size_t reg = 0; reg < keys_.size(); ++reg) {
      int64_t number = 0;
      bool inside = true;
      for (int axis = 0; axis < layout_.rank(); ++axis) {
        if (axis == axis_of(op_)) continue;
        const auto a = static_cast<size_t>(axis);
        const int64_t at = ctx_.register_coordinate(layout_, reg, axis);
        inside &= at < extents[a];
        number = number * padded[a] + at;
      }
      if (inside) rows[number].registers.push_back(reg);
    }
    for (auto& [number, row] : rows) {
      row.number = number;
      rows_.push_back(std::move(row));
    }
  }

  // Of a register of a layout whose rows may be anywhere.
  Value* row_number(const Layout& layout, size_t reg) {
    Value* out = u32(0);
    for (int axis = 0; axis < layout.rank(); ++axis) {
      if (axis == axis_of(op_)) continue;
      out = ir_.CreateAdd(ir_.CreateMul(out, u32(layout_.shape()[static_cast<size_t>(axis)])),
                          ctx_.coordinate(layout, reg, axis));
    }
    return out;
  }
  Value* first_slot(Value* row) { return ir_.CreateMul(row, u32(candidates_)); }

  Result<void> find_bounds() {
    RecordRows rows{.registers = {},
                    .words = key_words_ + (has_index() ? 1 : 0),
                    .word_of = [&](int number, size_t reg) { return word(number, reg); },
                    .differ = has_index(),
                    .wanted = k_of(op_),
                    .candidates = candidates_};
    for (const Row& row : rows_) rows.registers.push_back(row.registers);
    auto words = gpu::find_bounds(ctx_, rows);
    if (!words) return words.error();
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].bound = (*words)[0][i];
      if (key_words_ > 1) {
        Value* high = ir_.CreateShl(ir_.CreateZExt((*words)[0][i], wide_key_), 32);
        rows_[i].bound = ir_.CreateOr(high, ir_.CreateZExt((*words)[1][i], wide_key_));
      }
      if (has_index()) rows_[i].last = words->back()[i];
    }
    return {};
  }

  // The halves of a wide key, and the index.
  Value* word(int number, size_t reg) {
    if (number == key_words_) return index(reg);
    Value* key = keys_[reg];
    if (number + 1 < key_words_) key = ir_.CreateLShr(key, 32);
    return ir_.CreateTrunc(key, ir_.getInt32Ty());
  }

  Value* is_candidate(const Row& row, size_t reg) {
    Value* below = ir_.CreateICmpULT(keys_[reg], row.bound);
    if (!has_index()) return below;
    Value* equal = ir_.CreateICmpEQ(keys_[reg], row.bound);
    return ir_.CreateOr(below, ir_.CreateAnd(equal, ir_.CreateICmpULE(index(reg), row.last)));
  }

  Value* count_of(Value* row) { return ir_.CreateGEP(ir_.getInt32Ty(), counts_.pointer(), row); }

  void clear() {
    counts_.touch(ir_, SharedBuffer::Access::kWrite, kClear);
    emit_if(ctx_, ir_.CreateIsNull(ir_.CreateOr(ctx_.lane, ctx_.warp)), "select.clear", [&] {
      for (int64_t row = 0; row < rows_of(layout_.shape(), axis_of(op_)); ++row) {
        counts_.mark(ir_.CreateStore(u32(0), count_of(u32(row))), SharedBuffer::Access::kWrite, kClear);
      }
    });
    counts_.touch(ir_, SharedBuffer::Access::kWrite, kCollect);
    list_.touch(ir_, SharedBuffer::Access::kWrite, kCollect);
  }

  // A warp's candidates follow each other in the list, thread by thread.
  void collect(const Row& row) {
    Value* own = u32(0);
    for (size_t reg : row.registers) own = ir_.CreateAdd(own, ir_.CreateZExt(is_candidate(row, reg), ir_.getInt32Ty()));
    Value *up_to = own, *last = u32(ctx_.block.lanes - 1);
    for (int lanes = 1; lanes < ctx_.block.lanes; lanes *= 2) {
      Value* other = shuffle(ctx_, up_to, ir_.CreateAnd(ir_.CreateSub(ctx_.lane, u32(lanes)), last));
      Value* has_other = ir_.CreateICmpUGE(ctx_.lane, u32(lanes));
      up_to = ir_.CreateAdd(up_to, ir_.CreateSelect(has_other, other, u32(0)));
    }
    auto first = emit_if(ctx_, ir_.CreateICmpEQ(ctx_.lane, last), "select.place", {u32(0)}, [&]() -> Result<Registers> {
      auto* place = ir_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, count_of(u32(row.number)), up_to, llvm::Align(4),
                                        llvm::AtomicOrdering::Monotonic);
      counts_.mark(place, SharedBuffer::Access::kWrite, kCollect);
      return Registers{place};
    });
    Value* slot = ir_.CreateAdd(shuffle(ctx_, (*first)[0], last), ir_.CreateSub(up_to, own));
    for (size_t reg : row.registers) {
      Value* chosen = is_candidate(row, reg);
      emit_if(ctx_, chosen, "select.put", [&] { put(row, reg, slot); });
      slot = ir_.CreateAdd(slot, ir_.CreateZExt(chosen, ir_.getInt32Ty()));
    }
  }

  void put(const Row& row, size_t reg, Value* slot) {
    Value* record = ir_.CreateZExt(keys_[reg], record_type_);
    if (has_index()) {
      record = ir_.CreateOr(ir_.CreateShl(record, static_cast<uint64_t>(record_.index_bits)),
                            ir_.CreateZExt(index(reg), record_type_));
    }
    Value* at = ir_.CreateAdd(u32(row.number * candidates_), slot);
    auto* store = ir_.CreateStore(record, ir_.CreateGEP(record_type_, list_.pointer(), at));
    list_.mark(store, SharedBuffer::Access::kWrite, kCollect);
  }

  // What the list has beside its elements.
  Value* other(Value* row) {
    if (has_index()) return ones(record_type_);
    Value* out = rows_[0].bound;
    for (size_t i = 1; i < rows_.size(); ++i) {
      out = ir_.CreateSelect(ir_.CreateICmpEQ(row, u32(rows_[i].number)), rows_[i].bound, out);
    }
    return ir_.CreateZExt(out, record_type_);
  }

  Result<void> sort_list() {
    Registers list;
    for (size_t reg = 0; reg < static_cast<size_t>(list_layout_.size(Dim::kRegister)); ++reg) {
      Value *slot = ctx_.coordinate(list_layout_, reg, axis_of(op_)), *row = row_number(list_layout_, reg);
      auto* count = ir_.CreateLoad(ir_.getInt32Ty(), count_of(row));
      counts_.mark(count, SharedBuffer::Access::kRead, kRead);
      Value* at = ir_.CreateAdd(first_slot(row), slot);
      auto* load = ir_.CreateLoad(record_type_, ir_.CreateGEP(record_type_, list_.pointer(), at));
      list_.mark(load, SharedBuffer::Access::kRead, kRead);
      list.push_back(ir_.CreateSelect(ir_.CreateICmpULT(slot, count), load, other(row)));
    }
    const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k_of(op_))));
    auto sorted = sort_records(ctx_, op_, std::move(list), record_.bits(), list_layout_, axis_of(op_), wanted);
    if (!sorted) return sorted.error();
    sorted_ = std::move(*sorted);
    return {};
  }

  Context& ctx_;
  Builder& ir_;
  const Op& op_;
  const ElementType element_;
  const Layout& layout_;
  const Layout list_layout_;
  const int64_t candidates_;
  const RecordShape record_;
  const int key_words_;
  llvm::Type *wide_key_, *record_type_;
  const SharedBuffer counts_, list_;
  std::vector<Row> rows_;
  Registers keys_, sorted_;
  std::optional<SharedBuffer> aside_;
  Value* any_ambiguous_ = nullptr;
};

}  // namespace

std::optional<int64_t> candidates_of(const dsl::Kernel& kernel, const Op& op, const BlockShape& block,
                                     int64_t shared_bytes) {
  const dsl::Type& type = kernel.type(op.operands[0]);
  const std::vector<int64_t> padded = padded_shape(type);
  const int64_t extent = dsl::concrete_shape(type)[static_cast<size_t>(axis_of(op))];
  const int64_t rows = rows_of(padded, axis_of(op)), columns = padded[static_cast<size_t>(axis_of(op))];
  const auto k = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k_of(op))));
  const int64_t candidates = std::max(kLeastCandidates, kCandidates * k);
  if (rows > kMostRows || extent < kLeastExtent * candidates || extent < block.threads()) return std::nullopt;
  if (candidates > kMostCandidates) return std::nullopt;
  const RecordShape record(kernel, op, dsl::is_used(kernel, op.results[1]));
  if (rows * candidates * record.bits() / 8 > kListBytes) return std::nullopt;
  const int64_t aside = rows * columns * dsl::info(type.element).bytes;
  if (dsl::is_float(type.element) && aside > shared_bytes - kListBytes) return std::nullopt;
  return candidates;
}

std::vector<int64_t> candidates_shape(const dsl::Kernel& kernel, const Op& op, int64_t candidates) {
  std::vector<int64_t> out = padded_shape(kernel.type(op.operands[0]));
  out[static_cast<size_t>(axis_of(op))] = candidates;
  return out;
}

bool can_select(const Layout& layout, int axis) {
  const Bits along = ((Bits{1} << layout.axis_bits(axis)) - 1) << layout.axis_offset(axis);
  const auto is_along = [&](Bits element) { return (element & ~along) == 0; };
  return layout.injective() && std::ranges::all_of(layout.bases(Dim::kLane), is_along) &&
         std::ranges::all_of(layout.bases(Dim::kWarp), is_along);
}

std::map<ValueId, int> selected_tiles(const dsl::Kernel& kernel, const BlockShape& block, int64_t shared_bytes) {
  std::map<ValueId, int> out;
  const std::vector<const Op*> definition = dsl::definitions(kernel);
  const std::function<void(ValueId, int)> follow = [&](ValueId id, int axis) {
    if (kernel.type(id).rank() == 0 || !out.try_emplace(id, axis).second || !definition[id]) return;
    if (!dsl::info(definition[id]->code).has(dsl::kElementwise)) return;
    for (ValueId operand : definition[id]->operands) follow(operand, axis);
  };
  dsl::for_each_op(kernel, [&](const Op& op) {
    if (op.code == OpCode::kTopk && candidates_of(kernel, op, block, shared_bytes)) {
      follow(op.operands[0], axis_of(op));
    }
  });
  return out;
}

Result<void> lower_selection(Context& ctx, const Op& op, int64_t candidates) {
  const bool wants_places = ctx.uses(op.results[1]) > 0;
  Selection selection(ctx, op, candidates, wants_places);
  if (auto done = selection.run(); !done) return done;
  if (wants_places) selection.define_indices(op.results[1]);
  return selection.define_elements(op.results[0]);
}

}  // namespace kiln::codegen::gpu
