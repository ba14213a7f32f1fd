// Accumulators: of the kinds, of argmin and argmax, of custom regions.
#include "cpu/ops/accumulator.h"

#include <limits>

namespace kiln::codegen::cpu {
namespace {

using dsl::ReduceKind;

std::vector<int> lanes_from(unsigned begin, unsigned count, unsigned step) {
  std::vector<int> out;
  for (unsigned i = 0; i < count; ++i) out.push_back(static_cast<int>(begin + i * step));
  return out;
}

unsigned lane_count(Value* x) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return vector ? vector->getNumElements() : 1;
}

// Folds all lanes into one: a tree of halves.
template <class Fold>
Registers fold_halves(Builder& ir, Registers x, Fold fold) {
  for (unsigned n = lane_count(x[0]); n > 1; n /= 2) {
    Registers low, high;
    for (Value* value : x) {
      low.push_back(ir.CreateShuffleVector(value, lanes_from(0, n / 2, 1)));
      high.push_back(ir.CreateShuffleVector(value, lanes_from(n / 2, n / 2, 1)));
    }
    x = fold(low, high);
  }
  for (Value*& value : x) {
    if (value->getType()->isVectorTy()) value = ir.CreateExtractElement(value, uint64_t{0});
  }
  return x;
}

// sum … xor. min and max of floats keep the numbers and, apart, whether a NaN was seen. A long sum of floats adds up
// blocks in f64: the error stays that of a block.
class KindAccumulator : public Accumulator {
 public:
  KindAccumulator(Context& context, const Op& reduce, AccumulatorForm form)
      : Accumulator(context, reduce, form.width),
        kind_(reduce_kind(reduce)),
        element_(context.type(reduce.operands[0]).element) {
    const bool extreme = kind_ == ReduceKind::kMin || kind_ == ReduceKind::kMax;
    if (form.blocks && kind_ == ReduceKind::kSum && dsl::is_float(element_)) {
      totals_ = state(ElementType::kF64);
      numbers_ = entry_alloca(ctx, lanes_of(accumulator_type(ctx.ir.getContext(), element_)));
    } else {
      numbers_ = state(accumulator_element(element_));
    }
    if (dsl::is_float(element_) && extreme) nan_ = state(ElementType::kI1);
    if (form.along) equal_ = entry_alloca(ctx, accumulator_type(ctx.ir.getContext(), element_));
  }

  void reset() override {
    Value* none = identity(ctx.ir, kind_, element_);
    ir.CreateStore(splat(none), numbers_);
    if (totals_) ir.CreateStore(splat(identity(ctx.ir, kind_, ElementType::kF64)), totals_);
    if (nan_) ir.CreateStore(splat(ir.getFalse()), nan_);
    if (equal_) ir.CreateStore(none, equal_);
  }

  Result<void> add(const Elements& in) override {
    Value* x = to_accumulator(ctx, ir, element_, in.values[0]);
    Value* now = load(numbers_);
    Value* next = combine_numbers(ir, kind_, element_, x, now);
    ir.CreateStore(in.lanes ? ir.CreateSelect(in.lanes, next, now) : next, numbers_);
    if (!nan_) return {};
    Value* is_nan = ir.CreateFCmpUNO(x, x);
    if (in.lanes) is_nan = ir.CreateAnd(is_nan, in.lanes);
    ir.CreateStore(ir.CreateOr(load(nan_), is_nan), nan_);
    return {};
  }

  void end_block() override {
    if (!totals_) return;
    Value* wide = ir.CreateFPExt(load(numbers_), lanes_of(ir.getDoubleTy()));
    ir.CreateStore(ir.CreateFAdd(load(totals_), wide), totals_);
    ir.CreateStore(splat(identity(ctx.ir, kind_, element_)), numbers_);
  }

  bool takes_equal() const override { return kind_ != ReduceKind::kProd; }

  void add_equal(Value* x, Value* /*first*/, Value* count) override {
    x = to_accumulator(ctx, ir, element_, x);
    if (kind_ == ReduceKind::kSum) {
      x = dsl::is_float(element_) ? ir.CreateFMul(x, ir.CreateSIToFP(count, x->getType()))
                                  : ir.CreateMul(x, ir.CreateZExtOrTrunc(count, x->getType()));
    } else if (kind_ == ReduceKind::kXor) {
      x = ir.CreateSelect(ir.CreateTrunc(count, ir.getInt1Ty()), x, identity(ctx.ir, kind_, element_));
    }
    ir.CreateStore(x, equal_);
  }

  Registers lanes() override { return {from_accumulator(ctx, ir, kind_, element_, narrow(sum_of_lanes()))}; }

  Result<Registers> total() override {
    const ElementType element = totals_ ? ElementType::kF64 : accumulator_element(element_);
    Registers out = fold_halves(ir, {sum_of_lanes()}, [&](const Registers& x, const Registers& y) {
      return Registers{combine(ir, kind_, element, x[0], y[0])};
    });
    Value* all = combine(ir, kind_, element_, narrow(out[0]), load(equal_));
    return Registers{from_accumulator(ctx, ir, kind_, element_, all)};
  }

 private:
  Value* sum_of_lanes() {
    if (totals_) return load(totals_);
    Value* out = load(numbers_);
    return nan_ ? ir.CreateSelect(load(nan_), llvm::ConstantFP::getNaN(out->getType()), out) : out;
  }

  Value* narrow(Value* x) {
    llvm::Type* type = like(x, accumulator_type(ctx.ir.getContext(), element_));
    return x->getType() == type ? x : ir.CreateFPTrunc(x, type);
  }

  const ReduceKind kind_;
  const ElementType element_;
  Value *numbers_ = nullptr, *totals_ = nullptr, *nan_ = nullptr, *equal_ = nullptr;
};

// The extreme of each lane and where it was. An element takes its place only when it is strictly better, so the lowest
// index stays; a lane begins with its first index, in case all of its elements are as bad as can be.
class ArgAccumulator : public Accumulator {
 public:
  ArgAccumulator(Context& context, const Op& reduce, AccumulatorForm form)
      : Accumulator(context, reduce, form.width),
        kind_(reduce_kind(reduce) == ReduceKind::kArgmax ? ReduceKind::kMax : ReduceKind::kMin),
        element_(context.type(reduce.operands[0]).element),
        along_(form.along),
        best_(state(accumulator_element(element_))),
        where_(state(ElementType::kI32)) {
    equal_ = entry_alloca(ctx, accumulator_type(ctx.ir.getContext(), element_));
    first_equal_ = entry_alloca(ctx, ir.getInt32Ty());
  }

  void reset() override {
    ir.CreateStore(splat(identity(ctx.ir, kind_, element_)), best_);
    ir.CreateStore(indices(ir.getInt64(0)), where_);
    ir.CreateStore(identity(ctx.ir, kind_, element_), equal_);
    ir.CreateStore(ir.getInt32(std::numeric_limits<int32_t>::max()), first_equal_);
  }

  Result<void> add(const Elements& in) override {
    Value* x = to_accumulator(ctx, ir, element_, in.values[0]);
    Value *best = load(best_), *better = beats(x, best);
    if (in.lanes) better = ir.CreateAnd(better, in.lanes);
    ir.CreateStore(ir.CreateSelect(better, x, best), best_);
    ir.CreateStore(ir.CreateSelect(better, indices(in.index), load(where_)), where_);
    return {};
  }

  bool takes_equal() const override { return true; }

  void add_equal(Value* x, Value* first, Value* /*count*/) override {
    ir.CreateStore(to_accumulator(ctx, ir, element_, x), equal_);
    ir.CreateStore(ir.CreateTrunc(first, ir.getInt32Ty()), first_equal_);
  }

  Registers lanes() override { return {load(where_)}; }

  Result<Registers> total() override {
    auto better_of = [&](const Registers& x, const Registers& y) {
      Value *x_wins = beats(x[0], y[0]), *y_wins = beats(y[0], x[0]);
      Value* x_first = ir.CreateAnd(ir.CreateNot(y_wins), ir.CreateICmpSLT(x[1], y[1]));
      Value* take_x = ir.CreateOr(x_wins, x_first);
      return Registers{ir.CreateSelect(take_x, x[0], y[0]), ir.CreateSelect(take_x, x[1], y[1])};
    };
    const Registers all = fold_halves(ir, {load(best_), load(where_)}, better_of);
    return Registers{better_of(all, {load(equal_), load(first_equal_)})[1]};
  }

 private:
  // NaN beats all but NaN.
  Value* beats(Value* x, Value* y) {
    const bool maximum = kind_ == ReduceKind::kMax;
    if (dsl::is_float(element_)) {
      return ir.CreateAnd(maximum ? ir.CreateFCmpUGT(x, y) : ir.CreateFCmpULT(x, y), ir.CreateFCmpORD(y, y));
    }
    if (dsl::info(element_).is_signed) return maximum ? ir.CreateICmpSGT(x, y) : ir.CreateICmpSLT(x, y);
    return maximum ? ir.CreateICmpUGT(x, y) : ir.CreateICmpULT(x, y);
  }

  Value* indices(Value* index) {
    Value* first = splat(ir.CreateTrunc(index, ir.getInt32Ty()));
    if (!along_ || width_ == 1) return first;
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < width_; ++i) lanes.push_back(ir.getInt32(static_cast<uint32_t>(i)));
    return ir.CreateAdd(first, llvm::ConstantVector::get(lanes));
  }

  const ReduceKind kind_;
  const ElementType element_;
  const bool along_;
  Value *best_, *where_, *equal_, *first_equal_;
};

// There is no identity: the first element starts the accumulation, and lanes that are not active are stepped over.
// Along the axis the lanes of a vector are combined, neighbour by neighbour, before they are added.
class CustomAccumulator : public Accumulator {
 public:
  CustomAccumulator(Context& context, const Op& reduce, AccumulatorForm form)
      : Accumulator(context, reduce, form.along ? 1 : form.width) {
    for (ValueId operand : op.operands) state(ctx.type(operand).element);
  }

  void reset() override {
    for (const State& s : states) {
      auto* type = llvm::cast<llvm::AllocaInst>(s.variable)->getAllocatedType();
      ir.CreateStore(llvm::Constant::getNullValue(type), s.variable);
    }
  }

  Result<void> add(const Elements& in) override {
    Registers x = in.values;
    if (width_ == 1) {
      auto folded = fold_neighbours(x, in.lanes);
      if (!folded) return folded.error();
      x = *folded;
    }
    auto next = combine_operands(ctx, op, lanes(), x);
    if (!next) return next.error();
    Value* is_first = ir.CreateICmpEQ(in.index, ir.getInt64(0));
    for (size_t i = 0; i < states.size(); ++i) {
      ir.CreateStore(ir.CreateSelect(is_first, x[i], (*next)[i]), states[i].variable);
    }
    return {};
  }

  Registers lanes() override {
    Registers out;
    for (const State& s : states) out.push_back(load(s.variable));
    return out;
  }

  Result<Registers> total() override { return lanes(); }

 private:
  // Active lanes come first, so where the right one of a pair is active the left one is.
  Result<Registers> fold_neighbours(Registers x, Value* active) {
    for (unsigned n = lane_count(x[0]); n > 1; n /= 2) {
      auto every_second = [&](Value* value, unsigned first) {
        return ir.CreateShuffleVector(value, lanes_from(first, n / 2, 2));
      };
      Registers left, right;
      for (Value* value : x) {
        left.push_back(every_second(value, 0));
        right.push_back(every_second(value, 1));
      }
      auto both = combine_operands(ctx, op, left, right);
      if (!both) return both;
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = active ? ir.CreateSelect(every_second(active, 1), (*both)[i], left[i]) : (*both)[i];
      }
      if (active) active = every_second(active, 0);
    }
    for (Value*& value : x) {
      if (value->getType()->isVectorTy()) value = ir.CreateExtractElement(value, uint64_t{0});
    }
    return x;
  }
};

}  // namespace

std::unique_ptr<Accumulator> make_accumulator(Context& ctx, const Op& op, AccumulatorForm form) {
  switch (reduce_kind(op)) {
    case ReduceKind::kArgmin:
    case ReduceKind::kArgmax:
      return std::make_unique<ArgAccumulator>(ctx, op, form);
    case ReduceKind::kCustom:
      return std::make_unique<CustomAccumulator>(ctx, op, form);
    default:
      return std::make_unique<KindAccumulator>(ctx, op, form);
  }
}

}  // namespace kiln::codegen::cpu
