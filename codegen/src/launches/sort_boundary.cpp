// The keys at the places are found by bisection of those that there are, all places side by side. What is below a key
// in each run lies between what is below the lowest key that it may be, and the highest, and is found by bisection too,
// so that with each step fewer steps are left for the next one:
//
//   low, high = the least and the greatest key; below, upto = 0, the length of each run     (below low, up to high)
//   while low < high, and not just as many as are wanted are up to high:
//     middle = (low + high) / 2
//     counts = how many are up to middle, between below and upto, in each run
//     if their sum reaches the place: high, upto = middle, counts; else low, below = middle + 1, counts
//
// Keys are compared by their *rank*, an i64 that grows as they sort: floats by their bits, those of negative ones
// inverted, with zeros and NaNs made one; descending order inverts it all.
#include "launches/sort_boundary.h"

#include <functional>

#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/wide.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::MathFn;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::Predicate;
using dsl::ReduceKind;
using dsl::ValueId;

class Boundary {
 public:
  Boundary(dsl::Kernel& kernel, std::vector<Op>& out, const dsl::Location& loc, const SortedRuns& runs, int64_t places)
      : kernel_(kernel), loc_(loc), runs_(runs), shape_{dsl::Expr(places), dsl::Expr(runs.chunks.count)}, ops_(&out) {
    OpBuilder build = b();
    const ValueId starts = run_starts(build, runs);
    const ValueId left = sub(splat(i32(runs.chunks.extent), starts), starts);
    const ValueId lengths = b().add(OpCode::kMin, {left, splat(i32(runs.chunks.length), starts)});
    starts_ = along_runs(starts);
    lengths_ = along_runs(lengths);
  }

  // `places`: i32, as many as were said; gives [places, runs].
  ValueId elements_before(ValueId places) {
    const auto [below, upto] = counts_at(places);
    // Of the keys that are equal the first runs have the first.
    const ValueId equal = sub(upto, below);
    const ValueId before =
        sub(b().add(OpCode::kScan, {equal}, {static_cast<int64_t>(ReduceKind::kSum), int64_t{1}, int64_t{0}}), equal);
    const ValueId left = sub(along_places(sub(places, total(below))), before);
    const ValueId taken = b().add(OpCode::kMin, {b().add(OpCode::kMax, {left, zeros(equal)}), equal});
    return add(below, taken);
  }

 private:
  OpBuilder b() { return OpBuilder(kernel_, *ops_, loc_); }
  ValueId i32(int64_t x) { return b().constant(ElementType::kI32, bits_from_number(ElementType::kI32, x)); }
  ValueId i64(int64_t x) { return b().constant(ElementType::kI64, static_cast<uint64_t>(x)); }
  ValueId splat(ValueId x, ValueId like) { return b().splat(x, std::vector(b().type(like).shape)); }
  ValueId zeros(ValueId like) { return splat(b().constant(b().type(like).element, 0), like); }
  ValueId along_runs(ValueId by_run) { return spread(by_run, 0); }
  ValueId along_places(ValueId by_place) { return spread(by_place, 1); }
  ValueId spread(ValueId x, int64_t axis) {
    return b().add(OpCode::kBroadcast, {b().add(OpCode::kExpandDims, {x}, {axis})}, {shape_});
  }
  ValueId add(ValueId x, ValueId y) { return b().add(OpCode::kAdd, {x, y}); }
  ValueId sub(ValueId x, ValueId y) { return b().add(OpCode::kSub, {x, y}); }
  ValueId compare(ValueId x, ValueId y, Predicate predicate) {
    return b().add(OpCode::kCmp, {x, y}, {static_cast<int64_t>(predicate)});
  }
  ValueId choose(ValueId condition, ValueId x, ValueId y) { return b().add(OpCode::kSelect, {condition, x, y}); }
  ValueId both(ValueId x, ValueId y) { return b().add(OpCode::kAnd, {x, y}); }
  ValueId reduce(ValueId x, ReduceKind kind, int64_t axis) {
    return b().add(OpCode::kReduce, {x}, {static_cast<int64_t>(kind), axis});
  }
  ValueId reduce_all(ValueId x, ReduceKind kind) { return reduce(reduce(x, kind, 1), kind, 0); }
  ValueId total(ValueId counts) { return reduce(counts, ReduceKind::kSum, 1); }
  // (x + y) / 2 rounded down, without overflow.
  ValueId middle(ValueId x, ValueId y) {
    const ValueId one = splat(b().constant(b().type(x).element, 1), x);
    const ValueId half = b().add(OpCode::kShr, {b().add(OpCode::kXor, {x, y}), one});
    return add(both(x, y), half);
  }

  // Loops that carry values.
  using Values = std::vector<ValueId>;
  using Step = std::function<Values(const Values&)>;
  Values fresh(const Values& like) {
    Values out;
    for (ValueId id : like) out.push_back(fresh_value(kernel_, kernel_.type(id)));
    return out;
  }
  dsl::Region region(const Values& carried, const Step& step) {
    dsl::Region out;
    out.args = fresh(carried);
    std::vector<Op>* outer = std::exchange(ops_, &out.ops);
    b().effect(OpCode::kYield, step(out.args));
    ops_ = outer;
    return out;
  }
  Values repeat(ValueId times, const Values& carried, const Step& step) {
    Op loop{OpCode::kFor, {i32(0), times, i32(1)}, fresh(carried), {dsl::Expr(1)}, {}, loc_};
    loop.operands.insert(loop.operands.end(), carried.begin(), carried.end());
    loop.regions.push_back(region(carried, step));
    std::vector<ValueId>& args = loop.regions[0].args;
    args.insert(args.begin(), fresh_value(kernel_, dsl::scalar_type(ElementType::kI32)));
    Values out = loop.results;
    ops_->push_back(std::move(loop));
    return out;
  }
  Values repeat_while(const Values& carried, const std::function<ValueId(const Values&)>& goes_on, const Step& step) {
    Op loop{OpCode::kWhile, carried, fresh(carried), {}, {}, loc_};
    loop.regions.push_back(region(carried, [&](const Values& now) -> Values { return {goes_on(now)}; }));
    loop.regions.push_back(region(carried, step));
    Values out = loop.results;
    ops_->push_back(std::move(loop));
    return out;
  }

  ValueId rank(ValueId key) {
    ElementType element = b().type(key).element;
    if (dsl::is_small_float(element)) {
      key = b().add(OpCode::kCast, {key}, {ElementType::kF32});
      element = ElementType::kF32;
    }
    ValueId out = dsl::is_float(element) ? rank_of_float(key, element) : key;
    if (element == ElementType::kU64) {
      out = b().add(OpCode::kXor, {b().add(OpCode::kBitcast, {key}, {ElementType::kI64}), splat(i64(INT64_MIN), key)});
    } else if (b().type(out).element != ElementType::kI64) {
      out = b().add(OpCode::kCast, {out}, {ElementType::kI64});
    }
    return runs_.descending ? b().add(OpCode::kXor, {out, splat(i64(-1), out)}) : out;
  }

  ValueId rank_of_float(ValueId key, ElementType element) {
    const bool wide = element == ElementType::kF64;
    const ElementType ints = wide ? ElementType::kI64 : ElementType::kI32;
    const auto constant = [&](uint64_t bits) { return splat(b().constant(ints, bits), key); };
    const ValueId zero = zeros(key);
    const ValueId one_zero = choose(compare(key, zero, Predicate::kEq), zero, key);
    const ValueId bits = b().add(OpCode::kBitcast, {one_zero}, {ints});
    const uint64_t most = wide ? INT64_MAX : INT32_MAX;
    const ValueId sign = b().add(OpCode::kShr, {bits, constant(wide ? 63 : 31)});
    const ValueId ordered = b().add(OpCode::kXor, {bits, both(sign, constant(most))});
    const ValueId is_nan = b().add(OpCode::kMath, {key}, {static_cast<int64_t>(MathFn::kIsnan)});
    return choose(is_nan, constant(most), ordered);
  }

  ValueId load(ValueId at, const Values& mask) {
    Values operands = {b().add(OpCode::kAddptr, {splat(runs_.keys, at), add(starts_, at)})};
    operands.insert(operands.end(), mask.begin(), mask.end());
    return rank(b().add(OpCode::kLoad, operands));
  }

  // How many keys of each run are up to `key`, where it is known to be from `low` to `high`.
  ValueId count_up_to(ValueId key, ValueId low, ValueId high) {
    const ValueId longest = reduce_all(sub(high, low), ReduceKind::kMax);
    const auto step = [&](const Values& range) -> Values {
      const ValueId searching = compare(range[0], range[1], Predicate::kLt), at = middle(range[0], range[1]);
      const ValueId further = both(searching, compare(load(at, {searching}), key, Predicate::kLe));
      const ValueId stop = b().add(OpCode::kXor, {further, searching});
      return {choose(further, add(at, splat(i32(1), at)), range[0]), choose(stop, at, range[1])};
    };
    return repeat(bit_width(longest), {low, high}, step)[0];
  }

  // Of a scalar that is no more than a run's length.
  ValueId bit_width(ValueId x) {
    ValueId out = i32(0);
    for (int64_t bits = 0; runs_.chunks.length >> bits > 0; ++bits) {
      out = add(out, b().add(OpCode::kMin, {b().add(OpCode::kShr, {x, i32(bits)}), i32(1)}));
    }
    return out;
  }

  // Of each run, how many keys are below the one at a place, and up to it; or up to some one, where they are just as
  // many as are wanted.
  std::pair<ValueId, ValueId> counts_at(ValueId places) {
    const ValueId first = load(zeros(lengths_), {}), last = load(sub(lengths_, splat(i32(1), lengths_)), {});
    const auto extreme = [&](ValueId x, ReduceKind kind) { return along_places(reduce(x, kind, 1)); };
    const auto is_open = [&](ValueId low, ValueId high, ValueId upto) {
      const ValueId differs = along_places(compare(total(upto), places, Predicate::kNe));
      return both(compare(low, high, Predicate::kLt), differs);
    };
    const auto goes_on = [&](const Values& now) { return reduce_all(now[4], ReduceKind::kOr); };
    const auto step = [&](const Values& now) -> Values {
      const ValueId open = now[4], at = middle(now[0], now[1]);
      const ValueId counts = count_up_to(at, now[2], choose(open, now[3], now[2]));
      const ValueId enough = along_places(compare(total(counts), places, Predicate::kGe));
      const ValueId down = both(open, enough), up = b().add(OpCode::kXor, {open, down});
      const ValueId low = choose(up, add(at, splat(i64(1), at)), now[0]), high = choose(down, at, now[1]);
      const ValueId upto = choose(down, counts, now[3]);
      return {low, high, choose(up, counts, now[2]), upto, is_open(low, high, upto)};
    };
    const ValueId low = extreme(first, ReduceKind::kMin), high = extreme(last, ReduceKind::kMax);
    const Values start = {low, high, zeros(lengths_), lengths_, is_open(low, high, lengths_)};
    const Values found = repeat_while(start, goes_on, step);
    return {found[2], found[3]};
  }

  dsl::Kernel& kernel_;
  dsl::Location loc_;
  const SortedRuns& runs_;
  const std::vector<dsl::Expr> shape_;  // [places, runs]
  std::vector<Op>* ops_;
  ValueId starts_, lengths_;
};

}  // namespace

ValueId run_starts(OpBuilder& build, const SortedRuns& runs) {
  const ValueId numbers = build.add(OpCode::kArange, {}, {dsl::Expr(0), dsl::Expr(runs.chunks.count)});
  const ValueId length = build.constant(ElementType::kI32, static_cast<uint64_t>(runs.chunks.length));
  return build.add(OpCode::kMul, {numbers, build.splat(length, {dsl::Expr(runs.chunks.count)})});
}

ValueId elements_before(dsl::Kernel& kernel, std::vector<Op>& out, const dsl::Location& loc, const SortedRuns& runs,
                        ValueId places) {
  const int64_t count = *kernel.type(places).shape[0].as_constant();
  return Boundary(kernel, out, loc, runs, count).elements_before(places);
}

}  // namespace kiln::codegen
