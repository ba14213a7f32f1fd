// Each element becomes a record, an int that orders as the op wants it; the least k are to be found.
//
//   own = the least of each thread's records
//   low, high = the least and the greatest own: as many records as there are threads are up to high
//   while more than `candidates` records are up to high:
//     middle = (low + high) / 2
//     if k records are up to middle: high = middle; else low = middle + 1
//   the records up to high go into a list in shared memory, which is sorted
//
// Records carry their element's index, which makes equal elements differ; but not ints of which nobody wants the
// places. Of those more may equal high than the list holds: it has the ones below, and high in all its other places.
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

constexpr int64_t kLeastCandidates = 64, kCandidates = 4;  // … for each that is wanted
constexpr int64_t kLeastExtent = 4;                        // for each candidate
// Above its index, which has the low half.
constexpr int kKeyShift = 32;

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
        record_type_(b_.getIntNTy(has_index_ || key_bits_ > 32 ? 64 : 32)),
        count_(b_, 4),
        records_(b_, candidates * static_cast<int64_t>(record_type_->getPrimitiveSizeInBits().getFixedValue()) / 8) {
    if (keeps_elements()) elements_.emplace(b_, candidates * dsl::info(element_).bytes);
  }

  Result<void> run() {
    auto elements = c_.get(op_.operands[0], layout_);
    if (!elements) return elements.error();
    Registers records;
    for (size_t reg = 0; reg < elements->size(); ++reg) records.push_back(record(reg, (*elements)[reg]));
    auto bound = find_bound(records);
    if (!bound) return bound.error();
    collect(records, *elements, *bound);
    return sort_list(*bound);
  }

  void define_indices(ValueId id) {
    Registers out;
    for (Value* x : sorted_) {
      Value* index = b_.CreateTrunc(b_.CreateLShr(x, static_cast<uint64_t>(slot_bits())), b_.getInt32Ty());
      out.push_back(b_.CreateAnd(index, low_bits(b_.getInt32Ty(), index_bits())));
    }
    c_.define(id, std::move(out));
  }

  void define_elements(ValueId id) {
    const dsl::Type type = dsl::scalar_type(element_);
    Registers out;
    for (Value* x : sorted_) {
      if (keeps_elements()) {
        Value* slot = b_.CreateAnd(b_.CreateTrunc(x, b_.getInt32Ty()), low_bits(b_.getInt32Ty(), slot_bits()));
        llvm::Type* memory = memory_type(b_.getContext(), element_, false);
        auto* load = b_.CreateLoad(memory, b_.CreateGEP(memory, elements_->pointer(), slot));
        elements_->mark(load, SharedBuffer::Access::kRead, kRead);
        out.push_back(from_memory(b_, load, type));
      } else {
        Value* key = b_.CreateTrunc(b_.CreateLShr(x, static_cast<uint64_t>(index_bits())), key_type());
        out.push_back(from_memory(b_, elements_of(b_, element_, is_largest(), key), type));
      }
    }
    c_.define(id, std::move(out));
  }

 private:
  bool is_largest() const { return int_attr(op_, 2) != 0; }
  // Keys do not tell all of a float.
  bool keeps_elements() const { return dsl::is_float(element_); }
  llvm::Type* key_type() const { return b_.getIntNTy(static_cast<unsigned>(key_bits_)); }
  // Of a record that is sorted: the key, the index and the place in the list.
  int index_bits() const { return has_index_ ? log2_ceil(extent_of(c_.kernel, op_)) : 0; }
  int slot_bits() const { return keeps_elements() ? log2_ceil(candidates_) : 0; }
  llvm::Constant* low_bits(llvm::Type* type, int bits) const {
    return llvm::ConstantInt::get(type, (uint64_t{1} << bits) - 1);
  }
  Value* u32(int64_t x) { return b_.getInt32(static_cast<uint32_t>(x)); }

  // Padding has the greatest keys and indices.
  Value* record(size_t reg, Value* element) {
    Value* key = order_keys(b_, element_, is_largest(), element);
    if (Value* inside = c_.in_tile(layout_, reg, c_.type(op_.operands[0]))) {
      key = b_.CreateSelect(inside, key, llvm::Constant::getAllOnesValue(key->getType()));
    }
    key = b_.CreateZExt(key, record_type_);
    if (!has_index_) return key;
    Value* index = b_.CreateZExt(c_.coordinate(layout_, reg, axis_of(op_)), record_type_);
    return b_.CreateOr(b_.CreateShl(key, kKeyShift), index);
  }

  Value* is_candidate(Value* record, Value* bound) {
    return has_index_ ? b_.CreateICmpULE(record, bound) : b_.CreateICmpULT(record, bound);
  }

  Value* count_own(const Registers& records, llvm::function_ref<Value*(Value*)> condition) {
    Value* out = u32(0);
    for (Value* x : records) out = b_.CreateAdd(out, b_.CreateZExt(condition(x), b_.getInt32Ty()));
    return out;
  }

  Result<Value*> find_bound(const Registers& records) {
    const auto less = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); };
    const auto greater = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y); };
    Value* least = records[0];
    for (Value* x : records) least = less(least, x);
    const std::vector<Value*> ends = over_all_threads(c_, {{least, less}, {least, greater}});
    Value* high = c_.block.threads() >= k_of(op_) ? ends[1] : llvm::Constant::getAllOnesValue(record_type_);
    // How many are up to high is not known yet.
    const auto out = emit_while(
        c_, "select", {ends[0], high, u32(candidates_ + 1)},
        [&](const Registers& now) {
          Value* goes_on = b_.CreateAnd(b_.CreateICmpULT(now[0], now[1]), b_.CreateICmpUGT(now[2], u32(candidates_)));
          return c_.target.any_lane(b_, goes_on);
        },
        [&](const Registers& now) -> Result<Registers> {
          Value* middle = b_.CreateAdd(now[0], b_.CreateLShr(b_.CreateSub(now[1], now[0]), uint64_t{1}));
          Value* own = count_own(records, [&](Value* x) { return b_.CreateICmpULE(x, middle); });
          const auto sum = [&](Value* x, Value* y) { return b_.CreateAdd(x, y); };
          Value* count = over_all_threads(c_, {{own, sum}})[0];
          Value* enough = b_.CreateICmpUGE(count, u32(k_of(op_)));
          Value* above = b_.CreateAdd(middle, llvm::ConstantInt::get(record_type_, 1));
          return Registers{b_.CreateSelect(enough, now[0], above), b_.CreateSelect(enough, middle, now[1]),
                           b_.CreateSelect(enough, count, now[2])};
        });
    if (!out) return out.error();
    return (*out)[1];
  }

  // Each thread's candidates follow each other in the list, as many threads as have some.
  void collect(const Registers& records, const Registers& elements, Value* bound) {
    Value* thread = b_.CreateOr(c_.lane, c_.warp);
    count_.touch(b_, SharedBuffer::Access::kWrite, kClear);
    emit_if(c_, b_.CreateIsNull(thread), "select.clear",
            [&] { count_.mark(b_.CreateStore(u32(0), count_.pointer()), SharedBuffer::Access::kWrite, kClear); });
    count_.touch(b_, SharedBuffer::Access::kWrite, kCollect);
    records_.touch(b_, SharedBuffer::Access::kWrite, kCollect);
    if (elements_) elements_->touch(b_, SharedBuffer::Access::kWrite, kCollect);
    Value* own = count_own(records, [&](Value* x) { return is_candidate(x, bound); });
    emit_if(c_, b_.CreateIsNotNull(own), "select.collect", [&] {
      auto* slot = b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, count_.pointer(), own, llvm::Align(4),
                                      llvm::AtomicOrdering::Monotonic);
      count_.mark(slot, SharedBuffer::Access::kWrite, kCollect);
      put(records, elements, bound, slot);
    });
  }

  void put(const Registers& records, const Registers& elements, Value* bound, Value* slot) {
    for (size_t reg = 0; reg < records.size(); ++reg) {
      Value* chosen = is_candidate(records[reg], bound);
      emit_if(c_, chosen, "select.put", [&] {
        auto* store = b_.CreateStore(records[reg], b_.CreateGEP(record_type_, records_.pointer(), slot));
        records_.mark(store, SharedBuffer::Access::kWrite, kCollect);
        if (!elements_) return;
        Value* element = to_memory(b_, elements[reg]);
        auto* kept = b_.CreateStore(element, b_.CreateGEP(element->getType(), elements_->pointer(), slot));
        elements_->mark(kept, SharedBuffer::Access::kWrite, kCollect);
      });
      slot = b_.CreateAdd(slot, b_.CreateZExt(chosen, b_.getInt32Ty()));
    }
  }

  Result<void> sort_list(Value* bound) {
    auto* count = b_.CreateLoad(b_.getInt32Ty(), count_.pointer());
    count_.mark(count, SharedBuffer::Access::kRead, kRead);
    Registers list;
    for (size_t reg = 0; reg < static_cast<size_t>(list_layout_.size(Dim::kRegister)); ++reg) {
      Value* slot = c_.coordinate(list_layout_, reg, axis_of(op_));
      auto* load = b_.CreateLoad(record_type_, b_.CreateGEP(record_type_, records_.pointer(), slot));
      records_.mark(load, SharedBuffer::Access::kRead, kRead);
      list.push_back(packed(b_.CreateSelect(b_.CreateICmpULT(slot, count), load, bound), slot));
    }
    const int used_bits = key_bits_ + index_bits() + slot_bits();
    const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k_of(op_))));
    auto sorted = sort_records(c_, op_, std::move(list), used_bits, list_layout_, axis_of(op_), wanted);
    if (!sorted) return sorted.error();
    sorted_ = std::move(*sorted);
    return {};
  }

  Value* packed(Value* record, Value* slot) {
    if (!has_index_) return record;
    Value* key = b_.CreateLShr(record, kKeyShift);
    Value* index = b_.CreateAnd(record, low_bits(record_type_, index_bits()));
    Value* out = b_.CreateOr(b_.CreateShl(key, static_cast<uint64_t>(index_bits())), index);
    if (!keeps_elements()) return out;
    return b_.CreateOr(b_.CreateShl(out, static_cast<uint64_t>(slot_bits())), b_.CreateZExt(slot, record_type_));
  }

  Context& c_;
  Builder& b_;
  const Op& op_;
  const ElementType element_;
  const Layout &layout_, list_layout_;
  const int64_t candidates_;
  const bool has_index_;
  const int key_bits_;
  llvm::IntegerType* record_type_;
  const SharedBuffer count_, records_;
  std::optional<SharedBuffer> elements_;  // of the records in the list
  Registers sorted_;
};

}  // namespace

std::optional<int64_t> candidates_of(const dsl::Kernel& kernel, const Op& op, bool wants_places) {
  const dsl::Type& type = kernel.type(op.operands[0]);
  const int64_t extent = extent_of(kernel, op);
  const auto k = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k_of(op))));
  const int64_t candidates = std::max(kLeastCandidates, kCandidates * k);
  if (dsl::element_count(type) != extent || extent < kLeastExtent * candidates) return std::nullopt;
  const bool is_float = dsl::is_float(type.element), has_index = wants_places || is_float;
  const int key_bits = 8 * dsl::info(type.element).bytes;
  const int bits = key_bits + (has_index ? log2_ceil(extent) : 0) + (is_float ? log2_ceil(candidates) : 0);
  if (bits > 64 || (has_index && key_bits > kKeyShift)) return std::nullopt;
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
  selection.define_elements(op.results[0]);
  return {};
}

}  // namespace kiln::codegen::gpu
