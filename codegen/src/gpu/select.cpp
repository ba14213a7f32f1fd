// Each element has a key, an int that orders as the op wants it; the least k are to be found.
//
//   own = the least of each thread's keys
//   low, high = the least and the greatest own: as many keys as there are threads are up to high
//   while more than `candidates` keys are up to high:
//     middle = (low + high) / 2
//     if k keys are up to middle: high = middle; else low = middle + 1
//   the elements up to high go into a list in shared memory, which is sorted
//
// Of more equal elements than the list holds the first are taken: last, the index of the last one, is found as high is.
// Equal ints of which nobody wants the places are all alike: the list has those below high, and high beside them.
#include "gpu/select.h"

#include <bit>

#include "elementwise/order_keys.h"
#include "gpu/all_threads.h"
#include "gpu/branches.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared_memory.h"
#include "gpu/sort_network.h"
#include "passes/op_builder.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kLeastCandidates = 64, kMostCandidates = 2048, kCandidates = 4;  // … for each that is wanted
constexpr int64_t kLeastExtent = 4;                                                // for each candidate

constexpr int64_t kListBytes = 32768;  // at most, of shared memory, and for what threads agree on

int log2_ceil(int64_t x) { return std::bit_width(static_cast<uint64_t>(x - 1)); }
int64_t k_of(const Op& op) { return number_attr(op, 0); }
int axis_of(const Op& op) { return static_cast<int>(int_attr(op, 1)); }
int64_t extent_of(const dsl::Kernel& kernel, const Op& op) {
  return dsl::concrete_shape(kernel.type(op.operands[0]))[static_cast<size_t>(axis_of(op))];
}

// The list's accesses, in turn.
enum Phase : uint8_t { kClear, kCollect, kRead };

class Selection {
 public:
  Selection(Context& c, const Op& op, int64_t candidates, bool wants_places)
      : c_(c),
        b_(c.b),
        op_(op),
        element_(c.type(op.operands[0]).element),
        layout_(c.placement.wanted.at(&op)),
        list_layout_(sort_layout(candidates_shape(c.kernel, op, candidates), axis_of(op), c.block)),
        candidates_(candidates),
        has_index_(wants_places || dsl::is_float(element_)),
        key_bits_(8 * dsl::info(element_).bytes),
        wide_key_(b_.getIntNTy(key_bits_ > 32 ? 64 : 32)),
        record_type_(has_index_ ? b_.getInt64Ty() : wide_key_),
        count_(b_, 4),
        list_(b_, candidates * static_cast<int64_t>(record_type_->getPrimitiveSizeInBits().getFixedValue()) / 8) {}

  Result<void> run() {
    auto elements = c_.get(op_.operands[0], layout_);
    if (!elements) return elements.error();
    for (size_t reg = 0; reg < elements->size(); ++reg) keys_.push_back(key(reg, (*elements)[reg]));
    if (auto done = find_bound(*elements); !done) return done;
    collect();
    return sort_list();
  }

  void define_indices(ValueId id) {
    Registers out;
    for (Value* x : sorted_) out.push_back(index_of(x));
    c_.define(id, std::move(out));
  }

  Result<void> define_elements(ValueId id) {
    Registers out;
    for (Value* x : sorted_) {
      Value* key = b_.CreateTrunc(b_.CreateLShr(x, static_cast<uint64_t>(index_bits())), key_type());
      Value* bits = elements_of(b_, element_, is_largest(), key);
      out.push_back(row_ ? b_.CreateBitCast(bits, memory()) : bits);
    }
    if (row_) {
      auto exact = emit_if(c_, any_ambiguous_, "select.elements", out, [&]() -> Result<Registers> {
        Registers loaded;
        for (Value* x : sorted_) {
          auto* load = b_.CreateLoad(memory(), b_.CreateGEP(memory(), row_->pointer(), index_of(x)));
          row_->mark(load, SharedBuffer::Access::kRead, kRead);
          loaded.push_back(load);
        }
        return loaded;
      });
      if (!exact) return exact.error();
      out = std::move(*exact);
    }
    for (Value*& x : out) x = from_memory(b_, x, dsl::scalar_type(element_));
    c_.define(id, std::move(out));
    return {};
  }

 private:
  bool is_largest() const { return int_attr(op_, 2) != 0; }
  llvm::Type* key_type() const { return b_.getIntNTy(static_cast<unsigned>(key_bits_)); }
  llvm::Type* memory() const { return memory_type(b_.getContext(), element_, false); }
  // Of a record that is sorted: below the key.
  int index_bits() const { return has_index_ ? log2_ceil(extent_of(c_.kernel, op_)) : 0; }
  Value* index_of(Value* record) {
    return b_.CreateAnd(b_.CreateTrunc(record, b_.getInt32Ty()), b_.getInt32((1u << index_bits()) - 1));
  }
  Value* u32(int64_t x) { return b_.getInt32(static_cast<uint32_t>(x)); }
  Value* index(size_t reg) { return c_.coordinate(layout_, reg, axis_of(op_)); }

  // Padding comes last.
  Value* key(size_t reg, Value* element) {
    Value* key = order_keys(b_, element_, is_largest(), element);
    if (Value* inside = c_.in_tile(layout_, reg, c_.type(op_.operands[0]))) {
      key = b_.CreateSelect(inside, key, llvm::Constant::getAllOnesValue(key->getType()));
    }
    return b_.CreateZExt(key, wide_key_);
  }

  // How many of all elements meet a condition.
  Value* count(llvm::function_ref<Value*(size_t reg)> condition) {
    const auto sum = [&](Value* x, Value* y) { return b_.CreateAdd(x, y); };
    return over_all_threads(c_, {{count_own(condition), sum}})[0];
  }
  Value* count_own(llvm::function_ref<Value*(size_t reg)> condition) {
    Value* out = u32(0);
    for (size_t reg = 0; reg < keys_.size(); ++reg) {
      out = b_.CreateAdd(out, b_.CreateZExt(condition(reg), b_.getInt32Ty()));
    }
    return out;
  }

  // The least high from low on that k elements or more are up to, or one that no more than the candidates are up to;
  // of those given, `known` are.
  struct Bound {
    Value *high, *known;
  };
  Result<Bound> bisect(Value* low, Value* high, Value* known, llvm::function_ref<Value*(size_t, Value*)> is_up_to) {
    const auto out = emit_while(
        c_, "select", {low, high, known},
        [&](const Registers& now) {
          Value* goes_on = b_.CreateAnd(b_.CreateICmpULT(now[0], now[1]), b_.CreateICmpUGT(now[2], u32(candidates_)));
          return c_.target.any_lane(b_, goes_on);
        },
        [&](const Registers& now) -> Result<Registers> {
          Value* middle = b_.CreateAdd(now[0], b_.CreateLShr(b_.CreateSub(now[1], now[0]), uint64_t{1}));
          Value* up_to = count([&](size_t reg) { return is_up_to(reg, middle); });
          Value* enough = b_.CreateICmpUGE(up_to, u32(k_of(op_)));
          Value* above = b_.CreateAdd(middle, llvm::ConstantInt::get(middle->getType(), 1));
          return Registers{b_.CreateSelect(enough, now[0], above), b_.CreateSelect(enough, middle, now[1]),
                           b_.CreateSelect(enough, up_to, now[2])};
        });
    if (!out) return out.error();
    return Bound{(*out)[1], (*out)[2]};
  }

  Result<void> find_bound(const Registers& elements) {
    const auto less = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); };
    const auto greater = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); };
    const auto either = [&](Value* x, Value* y) { return b_.CreateOr(x, y); };
    Value *least = keys_[0], *ambiguous = b_.getFalse();
    for (Value* x : keys_) least = less(least, x);
    std::vector<Agreed> own = {{least, less}, {least, greater}};
    if (dsl::is_float(element_)) {
      for (Value* x : elements) ambiguous = b_.CreateOr(ambiguous, are_ambiguous(b_, element_, x));
      own.push_back({b_.CreateZExt(ambiguous, b_.getInt32Ty()), either});
    }
    const std::vector<Value*> ends = over_all_threads(c_, own);
    if (dsl::is_float(element_)) put_aside(b_.CreateIsNotNull(ends[2]), elements);
    Value* high = c_.block.threads() >= k_of(op_) ? ends[1] : llvm::Constant::getAllOnesValue(wide_key_);
    Value* unknown = u32(candidates_ + 1);
    auto bound = bisect(ends[0], high, unknown, [&](size_t reg, Value* x) { return b_.CreateICmpULE(keys_[reg], x); });
    if (!bound) return bound.error();
    high_ = bound->high;
    if (!has_index_) return {};
    auto last = bisect(u32(0), u32((int64_t{1} << index_bits()) - 1), bound->known,
                       [&](size_t reg, Value* x) { return is_up_to(reg, x); });
    if (!last) return last.error();
    last_ = last->high;
    return {};
  }

  // Where keys do not tell all elements, the row is kept.
  void put_aside(Value* any, const Registers& elements) {
    any_ambiguous_ = any;
    row_.emplace(b_, (int64_t{1} << layout_.axis_bits(axis_of(op_))) * dsl::info(element_).bytes);
    row_->touch(b_, SharedBuffer::Access::kWrite, kCollect);
    emit_if(c_, any, "select.aside", [&] {
      for (size_t reg = 0; reg < elements.size(); ++reg) {
        auto* store = b_.CreateStore(elements[reg], b_.CreateGEP(memory(), row_->pointer(), index(reg)));
        row_->mark(store, SharedBuffer::Access::kWrite, kCollect);
      }
    });
  }

  Value* is_up_to(size_t reg, Value* last) {
    Value* equal = b_.CreateICmpEQ(keys_[reg], high_);
    return b_.CreateOr(b_.CreateICmpULT(keys_[reg], high_), b_.CreateAnd(equal, b_.CreateICmpULE(index(reg), last)));
  }
  Value* is_candidate(size_t reg) { return has_index_ ? is_up_to(reg, last_) : b_.CreateICmpULT(keys_[reg], high_); }

  // Each thread's candidates follow each other in the list, as many threads as have some.
  void collect() {
    count_.touch(b_, SharedBuffer::Access::kWrite, kClear);
    emit_if(c_, b_.CreateIsNull(b_.CreateOr(c_.lane, c_.warp)), "select.clear",
            [&] { count_.mark(b_.CreateStore(u32(0), count_.pointer()), SharedBuffer::Access::kWrite, kClear); });
    count_.touch(b_, SharedBuffer::Access::kWrite, kCollect);
    list_.touch(b_, SharedBuffer::Access::kWrite, kCollect);
    Value* own = count_own([&](size_t reg) { return is_candidate(reg); });
    emit_if(c_, b_.CreateIsNotNull(own), "select.collect", [&] {
      auto* first = b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, count_.pointer(), own, llvm::Align(4),
                                       llvm::AtomicOrdering::Monotonic);
      count_.mark(first, SharedBuffer::Access::kWrite, kCollect);
      Value* slot = first;
      for (size_t reg = 0; reg < keys_.size(); ++reg) {
        Value* chosen = is_candidate(reg);
        emit_if(c_, chosen, "select.put", [&] { put(reg, slot); });
        slot = b_.CreateAdd(slot, b_.CreateZExt(chosen, b_.getInt32Ty()));
      }
    });
  }

  void put(size_t reg, Value* slot) {
    Value* record = b_.CreateZExt(keys_[reg], record_type_);
    if (has_index_) {
      record = b_.CreateOr(b_.CreateShl(record, static_cast<uint64_t>(index_bits())),
                           b_.CreateZExt(index(reg), record_type_));
    }
    auto* store = b_.CreateStore(record, b_.CreateGEP(record_type_, list_.pointer(), slot));
    list_.mark(store, SharedBuffer::Access::kWrite, kCollect);
  }

  Result<void> sort_list() {
    auto* count = b_.CreateLoad(b_.getInt32Ty(), count_.pointer());
    count_.mark(count, SharedBuffer::Access::kRead, kRead);
    Value* others = has_index_ ? llvm::Constant::getAllOnesValue(record_type_) : high_;
    Registers list;
    for (size_t reg = 0; reg < static_cast<size_t>(list_layout_.size(Dim::kRegister)); ++reg) {
      Value* slot = c_.coordinate(list_layout_, reg, axis_of(op_));
      auto* load = b_.CreateLoad(record_type_, b_.CreateGEP(record_type_, list_.pointer(), slot));
      list_.mark(load, SharedBuffer::Access::kRead, kRead);
      list.push_back(b_.CreateSelect(b_.CreateICmpULT(slot, count), load, others));
    }
    const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k_of(op_))));
    const auto bits = static_cast<int>(record_type_->getPrimitiveSizeInBits().getFixedValue());
    auto sorted = sort_records(c_, op_, std::move(list), bits, list_layout_, axis_of(op_), wanted);
    if (!sorted) return sorted.error();
    sorted_ = std::move(*sorted);
    return {};
  }

  Context& c_;
  Builder& b_;
  const Op& op_;
  const ElementType element_;
  const Layout& layout_;
  const Layout list_layout_;
  const int64_t candidates_;
  const bool has_index_;
  const int key_bits_;
  llvm::Type *wide_key_, *record_type_;
  const SharedBuffer count_, list_;
  Registers keys_, sorted_;
  Value *high_ = nullptr, *last_ = nullptr;
  std::optional<SharedBuffer> row_;
  Value* any_ambiguous_ = nullptr;
};

}  // namespace

std::optional<int64_t> candidates_of(const dsl::Kernel& kernel, const Op& op, bool wants_places, int64_t shared_bytes) {
  const dsl::Type& type = kernel.type(op.operands[0]);
  const int64_t extent = extent_of(kernel, op);
  const auto k = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k_of(op))));
  const int64_t candidates = std::max(kLeastCandidates, kCandidates * k);
  if (dsl::element_count(type) != extent || extent < kLeastExtent * candidates) return std::nullopt;
  if (candidates > kMostCandidates) return std::nullopt;
  const bool has_index = wants_places || dsl::is_float(type.element);
  const int bits = 8 * dsl::info(type.element).bytes + (has_index ? log2_ceil(extent) : 0);
  if (bits > 64) return std::nullopt;
  if (dsl::is_float(type.element) && extent * dsl::info(type.element).bytes > shared_bytes - kListBytes) {
    return std::nullopt;
  }
  return candidates;
}

std::vector<int64_t> candidates_shape(const dsl::Kernel& kernel, const Op& op, int64_t candidates) {
  std::vector<int64_t> out = dsl::concrete_shape(kernel.type(op.operands[0]));
  out[static_cast<size_t>(axis_of(op))] = candidates;
  return out;
}

Result<void> lower_selection(Context& c, const Op& op, int64_t candidates) {
  const bool wants_places = c.uses(op.results[1]) > 0;
  Selection selection(c, op, candidates, wants_places);
  if (auto done = selection.run(); !done) return done;
  if (wants_places) selection.define_indices(op.results[1]);
  return selection.define_elements(op.results[0]);
}

}  // namespace kiln::codegen::gpu
