// scan, and reduce by a region, which need not commute: the steps of layout/scan.h. Before each, an element knows what
// its group combines to, and a scan also what those before it in the group do; it gets the total of the group beside.
//
// Padding stands behind the last element. What comes to it, or through it from the front, nobody uses; what comes from
// it is left out: the upper group of two is empty where it begins beyond the extent.
#include "gpu/ops/scan.h"

#include "elementwise/combine.h"
#include "elementwise/combine_region.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared/exchange.h"

namespace kiln::codegen::gpu {
namespace {

class OrderedCombination {
 public:
  OrderedCombination(Context& ctx, const Op& op)
      : ctx_(ctx),
        ir_(ctx.ir),
        op_(op),
        layout_(ctx.placement.wanted.at(&op)),
        axis_(static_cast<int>(int_attr(op, 1))),
        scans_(op.code == OpCode::kScan),
        reverse_(scans_ && int_attr(op, 2) != 0),
        extent_(dsl::concrete_shape(ctx.type(op.operands[0]))[static_cast<size_t>(axis_)]) {}

  Result<void> lower() {
    auto steps = plan_scan(layout_, axis_);
    if (!steps) return steps.error();
    for (ValueId operand : op_.operands) {
      auto registers = ctx_.get(operand, layout_);
      if (!registers) return registers.error();
      for (Value*& x : *registers) x = begin(operand, x);
      total_.push_back(std::move(*registers));
    }
    if (scans_) value_ = total_;
    for (size_t i = 0; i < steps->size(); ++i) {
      if (auto done = combine_groups((*steps)[i], static_cast<int>(i)); !done) return done;
    }
    define();
    return {};
  }

 private:
  using Tuple = Elements;  // one value an operand

  bool is_custom() const { return reduce_kind(op_) == dsl::ReduceKind::kCustom; }
  Value* begin(ValueId id, Value* x) { return is_custom() ? x : to_accumulator(ctx_, ir_, ctx_.type(id).element, x); }

  static Tuple tuple(const std::vector<Registers>& all, size_t reg) {
    Tuple out;
    for (const Registers& registers : all) out.push_back(registers[reg]);
    return out;
  }
  static void put(std::vector<Registers>& all, size_t reg, const Tuple& values) {
    for (size_t i = 0; i < all.size(); ++i) all[i][reg] = values[i];
  }
  Tuple select(Value* condition, const Tuple& a, const Tuple& b) {
    if (!condition) return b;
    Tuple out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(ir_.CreateSelect(condition, a[i], b[i]));
    return out;
  }

  Result<Tuple> combined(const Tuple& left, const Tuple& right) {
    if (!is_custom())
      return Tuple{combine(ir_, reduce_kind(op_), ctx_.type(op_.operands[0]).element, left[0], right[0])};
    Tuple arguments = left;
    arguments.append(right.begin(), right.end());
    return emit_region(ctx_, ir_, op_.regions[0], arguments, [&](ValueId id) { return ctx_.scalar(id); });
  }

  // Whether the upper one of the two groups that step `i` combines has elements; null: always, or nobody asks.
  Value* upper_exists(size_t reg, int i) {
    const bool padded = extent_ != int64_t{1} << layout_.axis_bits(axis_);
    if (!padded || (scans_ && !reverse_)) return nullptr;
    Value* group = ir_.CreateAnd(ctx_.coordinate(layout_, reg, axis_), ir_.getInt32(~((2u << i) - 1)));
    return ir_.CreateICmpULT(ir_.CreateOr(group, ir_.getInt32(1u << i)), ir_.getInt32(static_cast<uint32_t>(extent_)));
  }

  // The totals of the lower and the upper group, of which one is the element's own; the order counts from the end in
  // a reverse scan.
  Result<Tuple> combine_totals(const Tuple& lower, const Tuple& upper, Value* upper_exists) {
    auto both = reverse_ ? combined(upper, lower) : combined(lower, upper);
    if (!both || !upper_exists) return both;
    return select(upper_exists, *both, lower);
  }

  Result<void> combine_groups(const ScanStep& step, int i) {
    std::vector<Registers> other;
    for (const Registers& registers : total_) other.push_back(fetch(ctx_, registers, step));
    const Parity upper(ctx_, step.upper);
    // Elements of one group have one total.
    std::map<std::pair<std::vector<Value*>, int64_t>, Tuple> totals;
    const std::vector<Registers> own = total_;
    for (size_t reg = 0; reg < own[0].size(); ++reg) {
      const Tuple mine = tuple(own, reg), beside = tuple(other, reg);
      const bool is_upper = upper.of_register(reg);
      // Where the thread is in the upper group, or in the lower one, as the register says.
      const Tuple &first = is_upper ? beside : mine, &second = is_upper ? mine : beside;
      const Tuple lower = select(upper.of_thread(), second, first), above = select(upper.of_thread(), first, second);
      Value* exists = upper_exists(reg, i);
      if (scans_) {
        if (auto done = scan_on(reg, beside, is_upper, upper.of_thread(), exists); !done) return done;
      }
      std::vector<Value*> halves(first.begin(), first.end());
      halves.insert(halves.end(), second.begin(), second.end());
      const int64_t group = ctx_.register_coordinate(layout_, reg, axis_) >> (i + 1);
      const auto [found, is_new] = totals.try_emplace({std::move(halves), group});
      if (is_new) {
        auto total = combine_totals(lower, above, exists);
        if (!total) return total.error();
        found->second = *total;
      }
      put(total_, reg, found->second);
    }
    return {};
  }

  // What stands before the element's group goes before what it has.
  Result<void> scan_on(size_t reg, const Tuple& beside, bool is_upper, Value* upper_by_thread, Value* upper_exists) {
    const bool behind = is_upper != reverse_;  // where the thread's part says nothing else
    if (!upper_by_thread && !behind) return {};
    const Tuple mine = tuple(value_, reg);
    auto both = combined(beside, mine);
    if (!both) return both.error();
    Tuple out = reverse_ && upper_exists ? select(upper_exists, *both, mine) : *both;
    if (upper_by_thread) out = behind ? select(upper_by_thread, mine, out) : select(upper_by_thread, out, mine);
    put(value_, reg, out);
    return {};
  }

  void define() {
    const Deduplicated sliced = without_copies_in_registers(slice(layout_, axis_));
    for (size_t i = 0; i < op_.results.size(); ++i) {
      Registers out;
      if (scans_) {
        out = value_[i];
      } else {
        for (Bits reg = 0; reg < Bits{1} << sliced.original.size(); ++reg) {
          out.push_back(total_[i][multiply(sliced.original, reg)]);
        }
      }
      const ElementType element = ctx_.type(op_.operands[i]).element;
      if (!is_custom()) {
        for (Value*& x : out) x = from_accumulator(ctx_, ir_, reduce_kind(op_), element, x);
      }
      ctx_.define(op_.results[i], std::move(out));
    }
  }

  Context& ctx_;
  Builder& ir_;
  const Op& op_;
  const Layout& layout_;
  const int axis_;
  const bool scans_, reverse_;
  const int64_t extent_;
  // By operand: the totals of the elements' groups, and of a scan what the elements up to each combine to.
  std::vector<Registers> total_, value_;
};

}  // namespace

Result<void> lower_in_order(Context& ctx, const Op& op) { return OrderedCombination(ctx, op).lower(); }

}  // namespace kiln::codegen::gpu
