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
Registers fold_halves(Builder& b, Registers x, Fold fold) {
  for (unsigned n = lane_count(x[0]); n > 1; n /= 2) {
    Registers low, high;
    for (Value* value : x) {
      low.push_back(b.CreateShuffleVector(value, lanes_from(0, n / 2, 1)));
      high.push_back(b.CreateShuffleVector(value, lanes_from(n / 2, n / 2, 1)));
    }
    x = fold(low, high);
  }
  for (Value*& value : x) {
    if (value->getType()->isVectorTy()) value = b.CreateExtractElement(value, uint64_t{0});
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
      numbers_ = entry_alloca(c, lanes_of(accumulator_type(c.b.getContext(), element_)));
    } else {
      numbers_ = state(accumulator_element(element_));
    }
    if (dsl::is_float(element_) && extreme) nan_ = state(ElementType::kI1);
    if (form.along) equal_ = entry_alloca(c, accumulator_type(c.b.getContext(), element_));
  }

  void reset() override {
    Value* none = identity(c.b, kind_, element_);
    b.CreateStore(splat(none), numbers_);
    if (totals_) b.CreateStore(splat(identity(c.b, kind_, ElementType::kF64)), totals_);
    if (nan_) b.CreateStore(splat(b.getFalse()), nan_);
    if (equal_) b.CreateStore(none, equal_);
  }

  Result<void> add(const Elements& in) override {
    Value* x = to_accumulator(c, b, element_, in.values[0]);
    Value* now = load(numbers_);
    Value* next = combine_numbers(b, kind_, element_, x, now);
    b.CreateStore(in.lanes ? b.CreateSelect(in.lanes, next, now) : next, numbers_);
    if (!nan_) return {};
    Value* is_nan = b.CreateFCmpUNO(x, x);
    if (in.lanes) is_nan = b.CreateAnd(is_nan, in.lanes);
    b.CreateStore(b.CreateOr(load(nan_), is_nan), nan_);
    return {};
  }

  void end_block() override {
    if (!totals_) return;
    Value* wide = b.CreateFPExt(load(numbers_), lanes_of(b.getDoubleTy()));
    b.CreateStore(b.CreateFAdd(load(totals_), wide), totals_);
    b.CreateStore(splat(identity(c.b, kind_, element_)), numbers_);
  }

  bool takes_equal() const override { return kind_ != ReduceKind::kProd; }

  void add_equal(Value* x, Value* /*first*/, Value* count) override {
    x = to_accumulator(c, b, element_, x);
    if (kind_ == ReduceKind::kSum) {
      x = dsl::is_float(element_) ? b.CreateFMul(x, b.CreateSIToFP(count, x->getType()))
                                  : b.CreateMul(x, b.CreateZExtOrTrunc(count, x->getType()));
    } else if (kind_ == ReduceKind::kXor) {
      x = b.CreateSelect(b.CreateTrunc(count, b.getInt1Ty()), x, identity(c.b, kind_, element_));
    }
    b.CreateStore(x, equal_);
  }

  Registers lanes() override { return {from_accumulator(c, b, kind_, element_, narrow(sum_of_lanes()))}; }

  Result<Registers> total() override {
    const ElementType element = totals_ ? ElementType::kF64 : accumulator_element(element_);
    Registers out = fold_halves(b, {sum_of_lanes()}, [&](const Registers& x, const Registers& y) {
      return Registers{combine(b, kind_, element, x[0], y[0])};
    });
    Value* all = combine(b, kind_, element_, narrow(out[0]), load(equal_));
    return Registers{from_accumulator(c, b, kind_, element_, all)};
  }

 private:
  Value* sum_of_lanes() {
    if (totals_) return load(totals_);
    Value* out = load(numbers_);
    return nan_ ? b.CreateSelect(load(nan_), llvm::ConstantFP::getNaN(out->getType()), out) : out;
  }

  Value* narrow(Value* x) {
    llvm::Type* type = like(x, accumulator_type(c.b.getContext(), element_));
    return x->getType() == type ? x : b.CreateFPTrunc(x, type);
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
    equal_ = entry_alloca(c, accumulator_type(c.b.getContext(), element_));
    first_equal_ = entry_alloca(c, b.getInt32Ty());
  }

  void reset() override {
    b.CreateStore(splat(identity(c.b, kind_, element_)), best_);
    b.CreateStore(indices(b.getInt64(0)), where_);
    b.CreateStore(identity(c.b, kind_, element_), equal_);
    b.CreateStore(b.getInt32(std::numeric_limits<int32_t>::max()), first_equal_);
  }

  Result<void> add(const Elements& in) override {
    Value* x = to_accumulator(c, b, element_, in.values[0]);
    Value *best = load(best_), *better = beats(x, best);
    if (in.lanes) better = b.CreateAnd(better, in.lanes);
    b.CreateStore(b.CreateSelect(better, x, best), best_);
    b.CreateStore(b.CreateSelect(better, indices(in.index), load(where_)), where_);
    return {};
  }

  bool takes_equal() const override { return true; }

  void add_equal(Value* x, Value* first, Value* /*count*/) override {
    b.CreateStore(to_accumulator(c, b, element_, x), equal_);
    b.CreateStore(b.CreateTrunc(first, b.getInt32Ty()), first_equal_);
  }

  Registers lanes() override { return {load(where_)}; }

  Result<Registers> total() override {
    auto better_of = [&](const Registers& x, const Registers& y) {
      Value *x_wins = beats(x[0], y[0]), *y_wins = beats(y[0], x[0]);
      Value* x_first = b.CreateAnd(b.CreateNot(y_wins), b.CreateICmpSLT(x[1], y[1]));
      Value* take_x = b.CreateOr(x_wins, x_first);
      return Registers{b.CreateSelect(take_x, x[0], y[0]), b.CreateSelect(take_x, x[1], y[1])};
    };
    const Registers all = fold_halves(b, {load(best_), load(where_)}, better_of);
    return Registers{better_of(all, {load(equal_), load(first_equal_)})[1]};
  }

 private:
  // NaN beats all but NaN.
  Value* beats(Value* x, Value* y) {
    const bool maximum = kind_ == ReduceKind::kMax;
    if (dsl::is_float(element_)) {
      return b.CreateAnd(maximum ? b.CreateFCmpUGT(x, y) : b.CreateFCmpULT(x, y), b.CreateFCmpORD(y, y));
    }
    if (dsl::info(element_).is_signed) return maximum ? b.CreateICmpSGT(x, y) : b.CreateICmpSLT(x, y);
    return maximum ? b.CreateICmpUGT(x, y) : b.CreateICmpULT(x, y);
  }

  Value* indices(Value* index) {
    Value* first = splat(b.CreateTrunc(index, b.getInt32Ty()));
    if (!along_ || width_ == 1) return first;
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < width_; ++i) lanes.push_back(b.getInt32(static_cast<uint32_t>(i)));
    return b.CreateAdd(first, llvm::ConstantVector::get(lanes));
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
    for (ValueId operand : op.operands) state(c.type(operand).element);
  }

  void reset() override {
    for (const State& s : states) {
      auto* type = llvm::cast<llvm::AllocaInst>(s.variable)->getAllocatedType();
      b.CreateStore(llvm::Constant::getNullValue(type), s.variable);
    }
  }

  Result<void> add(const Elements& in) override {
    Registers x = in.values;
    if (width_ == 1) {
      auto folded = fold_neighbours(x, in.lanes);
      if (!folded) return folded.error();
      x = *folded;
    }
    auto next = combine_operands(c, op, lanes(), x);
    if (!next) return next.error();
    Value* is_first = b.CreateICmpEQ(in.index, b.getInt64(0));
    for (size_t i = 0; i < states.size(); ++i) {
      b.CreateStore(b.CreateSelect(is_first, x[i], (*next)[i]), states[i].variable);
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
        return b.CreateShuffleVector(value, lanes_from(first, n / 2, 2));
      };
      Registers left, right;
      for (Value* value : x) {
        left.push_back(every_second(value, 0));
        right.push_back(every_second(value, 1));
      }
      auto both = combine_operands(c, op, left, right);
      if (!both) return both;
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = active ? b.CreateSelect(every_second(active, 1), (*both)[i], left[i]) : (*both)[i];
      }
      if (active) active = every_second(active, 0);
    }
    for (Value*& value : x) {
      if (value->getType()->isVectorTy()) value = b.CreateExtractElement(value, uint64_t{0});
    }
    return x;
  }
};

}  // namespace

std::unique_ptr<Accumulator> make_accumulator(Context& c, const Op& op, AccumulatorForm form) {
  switch (reduce_kind(op)) {
    case ReduceKind::kArgmin:
    case ReduceKind::kArgmax:
      return std::make_unique<ArgAccumulator>(c, op, form);
    case ReduceKind::kCustom:
      return std::make_unique<CustomAccumulator>(c, op, form);
    default:
      return std::make_unique<KindAccumulator>(c, op, form);
  }
}

}  // namespace kiln::codegen::cpu
