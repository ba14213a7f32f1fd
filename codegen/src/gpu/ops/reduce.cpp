// Reductions: in registers, between lanes, and between warps through shared memory, as layout/reduction.h plans it.
// Several that do not need each other are at each of these at once, so that they share a barrier.
// What a layout pads a tile with counts as the kind's identity. A region need not commute: scan.cpp.
#include "gpu/ops/reduce.h"

#include "elementwise/combine.h"
#include "gpu/layout/reduction.h"
#include "gpu/ops/scan.h"
#include "gpu/shared/convert.h"

namespace kiln::codegen::gpu {
namespace {

// One accumulator a register; argmin and argmax carry the element and its index.
struct Parts {
  Registers value, index;
};

class Reduction {
 public:
  Reduction(Context& ctx, const Op& op)
      : ctx_(ctx), ir_(ctx.ir), op_(op), kind_(reduce_kind(op)), element_(ctx.type(op.operands[0]).element) {}

  // As far as a thread comes without the partial results of other warps.
  Result<void> start() {
    const Layout& layout = ctx_.placement.wanted.at(&op_);
    const int axis = static_cast<int>(int_attr(op_, 1));
    auto plan = plan_reduction(layout, axis);
    if (!plan) return plan.error();
    plan_ = std::move(*plan);
    auto parts = begin(layout, axis);
    if (!parts) return parts.error();
    for (Bits reg : plan_.in_thread) combine_with(*parts, {reg, 0});
    // A sum that is finished behind its loop (deferred_reductions.h) stays in its lane.
    const bool is_late = ctx_.may_leave_pending(op_.results[0]);
    for (const Partner& partner : plan_.shuffles) {
      if (!is_late) combine_with(*parts, partner);
    }
    return start_gathering(picked(*parts, plan_.partial_registers));
  }

  Result<void> finish() { return define(gathered()); }

 private:
  bool is_arg() const { return kind_ == dsl::ReduceKind::kArgmin || kind_ == dsl::ReduceKind::kArgmax; }

  Result<Parts> begin(const Layout& layout, int axis) {
    auto registers = ctx_.get(op_.operands[0], layout);
    if (!registers) return registers.error();
    Parts out;
    for (size_t reg = 0; reg < registers->size(); ++reg) {
      Value* x = to_accumulator(ctx_, ir_, element_, (*registers)[reg]);
      Value* index = is_arg() ? ctx_.coordinate(layout, reg, axis) : nullptr;
      if (Value* inside = ctx_.in_tile(layout, reg, ctx_.type(op_.operands[0]))) {
        if (is_arg()) {
          // Padding comes behind every element. It is the same in all lanes, which may store it to one place.
          index = ir_.CreateSelect(inside, index, ir_.getInt32(INT32_MAX));
          x = ir_.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
        } else {
          x = ir_.CreateSelect(inside, x, codegen::identity(ir_, kind_, element_));
        }
      }
      out.value.push_back(x);
      if (index) out.index.push_back(index);
    }
    return out;
  }

  // x before y, or after: NaN is the extreme, ties take the lowest index, padding loses.
  Value* wins(Value* x, Value* x_index, Value* y, Value* y_index) {
    const bool maximum = kind_ == dsl::ReduceKind::kArgmax;
    Value* padding = ir_.getInt32(INT32_MAX);
    Value *better, *equal;
    if (dsl::is_float(element_)) {
      Value *x_nan = ir_.CreateFCmpUNO(x, x), *y_nan = ir_.CreateFCmpUNO(y, y);
      Value* further = maximum ? ir_.CreateFCmpOGT(x, y) : ir_.CreateFCmpOLT(x, y);
      better = ir_.CreateOr(further, ir_.CreateAnd(x_nan, ir_.CreateNot(y_nan)));
      equal = ir_.CreateOr(ir_.CreateFCmpOEQ(x, y), ir_.CreateAnd(x_nan, y_nan));
    } else {
      const bool is_signed = dsl::info(element_).is_signed;
      better = maximum ? (is_signed ? ir_.CreateICmpSGT(x, y) : ir_.CreateICmpUGT(x, y))
                       : (is_signed ? ir_.CreateICmpSLT(x, y) : ir_.CreateICmpULT(x, y));
      equal = ir_.CreateICmpEQ(x, y);
    }
    Value* first = ir_.CreateOr(better, ir_.CreateAnd(equal, ir_.CreateICmpULT(x_index, y_index)));
    Value* y_padding = ir_.CreateICmpEQ(y_index, padding);
    return ir_.CreateOr(y_padding, ir_.CreateAnd(ir_.CreateICmpNE(x_index, padding), first));
  }

  // Everyone's registers with their partners'. Registers that hold the same value already, after steps inside the
  // thread, are combined once.
  void combine_with(Parts& parts, const Partner& partner) {
    const Registers values = parts.value, indices = parts.index;
    std::map<std::pair<Value*, Value*>, size_t> done;  // by both values: the register that has the result
    for (size_t reg = 0; reg < values.size(); ++reg) {
      const size_t from = reg ^ partner.reg;
      // Inside a thread the two may come in either order: they get the same.
      const bool swapped = partner.lane == 0 && from < reg;
      const auto [found, is_new] = done.try_emplace({values[swapped ? from : reg], values[swapped ? reg : from]}, reg);
      if (!is_new) {
        parts.value[reg] = parts.value[found->second];
        if (is_arg()) parts.index[reg] = parts.index[found->second];
        continue;
      }
      Value* other = fetch(values[from], partner.lane);
      if (!is_arg()) {
        parts.value[reg] = commutative(values[reg], other);
        continue;
      }
      Value* other_index = fetch(indices[from], partner.lane);
      Value* mine = wins(values[reg], indices[reg], other, other_index);
      parts.value[reg] = ir_.CreateSelect(mine, values[reg], other);
      parts.index[reg] = ir_.CreateSelect(mine, indices[reg], other_index);
    }
  }

  // Lanes meet with their operands swapped, and all are to have the same bits: of zeros with different signs, too,
  // where there is no instruction that orders them.
  Value* commutative(Value* x, Value* y) {
    Value* out = combine(ir_, kind_, element_, x, y);
    const bool minimum = kind_ == dsl::ReduceKind::kMin;
    if (!out->getType()->isDoubleTy() || (!minimum && kind_ != dsl::ReduceKind::kMax)) return out;
    llvm::Type* bits = ir_.getInt64Ty();
    Value *p = ir_.CreateBitCast(x, bits), *q = ir_.CreateBitCast(y, bits);
    Value* equal = ir_.CreateBitCast(minimum ? ir_.CreateOr(p, q) : ir_.CreateAnd(p, q), out->getType());
    Value* number = ir_.CreateSelect(ir_.CreateFCmpOEQ(x, y), equal, out);
    return ir_.CreateSelect(ir_.CreateFCmpUNO(out, out), llvm::ConstantFP::getNaN(out->getType()), number);
  }

  Value* fetch(Value* x, Bits lanes) { return lanes == 0 ? x : shuffle_xor(ctx_, x, static_cast<unsigned>(lanes)); }

  static Parts picked(const Parts& parts, const Columns& from) {
    Parts out;
    for (Bits i = 0; i < Bits{1} << from.size(); ++i) {
      out.value.push_back(parts.value[multiply(from, i)]);
      if (!parts.index.empty()) out.index.push_back(parts.index[multiply(from, i)]);
    }
    return out;
  }

  Result<void> start_gathering(const Parts& parts) {
    const auto start = [&](const Registers& registers, ElementType element) {
      return start_conversion(ctx_, registers, dsl::scalar_type(element), plan_.partial, plan_.gathered);
    };
    auto values = start(parts.value, accumulator_element(element_));
    if (!values) return values.error();
    rest_ = {std::move(*values)};
    if (!is_arg()) return {};
    auto indices = start(parts.index, ElementType::kI32);
    if (!indices) return indices.error();
    rest_.push_back(std::move(*indices));
    return {};
  }

  // The partial results of all warps come into the lowest register bits of every thread, and are combined there.
  Parts gathered() {
    Parts parts = {rest_[0](), is_arg() ? rest_[1]() : Registers()};
    const int bits = plan_.gathered.bits(Dim::kRegister) - plan_.result.bits(Dim::kRegister);
    for (int bit = 0; bit < bits; ++bit) combine_with(parts, {Bits{1} << bit, 0});
    Columns kept;
    for (int bit = 0; bit < plan_.result.bits(Dim::kRegister); ++bit) kept.push_back(Bits{1} << (bits + bit));
    return picked(parts, kept);
  }

  Result<void> define(const Parts& parts) {
    Registers out = parts.index;
    if (!is_arg()) {
      for (Value* x : parts.value) out.push_back(from_accumulator(ctx_, ir_, kind_, element_, x));
    }
    auto home = convert(ctx_, out, ctx_.type(op_.results[0]), plan_.result, *ctx_.placement.home[op_.results[0]]);
    if (!home) return home.error();
    ctx_.define(op_.results[0], std::move(*home));
    return {};
  }

  Context& ctx_;
  Builder& ir_;
  const Op& op_;
  const dsl::ReduceKind kind_;
  const ElementType element_;
  ReductionPlan plan_;
  std::vector<std::function<Registers()>> rest_;  // partial results of all warps: values, and indices
};

}  // namespace

bool is_plain_reduction(const Op& op) {
  return op.code == OpCode::kReduce && reduce_kind(op) != dsl::ReduceKind::kCustom;
}

Result<void> lower_reductions(Context& ctx, llvm::ArrayRef<Op> ops) {
  std::vector<Reduction> all;
  for (const Op& op : ops) all.emplace_back(ctx, op);
  for (Reduction& one : all) {
    if (auto done = one.start(); !done) return done;
  }
  for (Reduction& one : all) {
    if (auto done = one.finish(); !done) return done;
  }
  return {};
}

Result<void> lower_reduce(Context& ctx, const Op& op) {
  return is_plain_reduction(op) ? lower_reductions(ctx, op) : lower_in_order(ctx, op);
}

}  // namespace kiln::codegen::gpu
