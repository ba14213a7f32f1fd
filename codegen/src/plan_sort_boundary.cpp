// The key at the place is found by bisection of all keys there can be; each step counts what lies below in each run, by
// bisection too. Keys are compared by their *rank*, an i64 that grows as they sort: floats by their bits, those of
// negative ones inverted, with zeros and NaNs made one; descending order inverts it all.
#include "plan_sort_boundary.h"

#include <bit>
#include <functional>

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::MathFn;
using dsl::Op;
using dsl::OpCode;
using dsl::Predicate;
using dsl::ReduceKind;
using dsl::ValueId;

class Boundary {
 public:
  Boundary(dsl::Kernel& kernel, std::vector<Op>& out, const dsl::Location& loc, const SortedRuns& runs)
      : kernel_(kernel), loc_(loc), runs_(runs), shape_{dsl::Expr(runs.chunks.count)}, ops_(&out) {
    OpBuilder build = b();
    starts_ = run_starts(build, runs);
    const ValueId left = b().add(OpCode::kSub, {splat(i32(runs.chunks.extent)), starts_});
    lengths_ = b().add(OpCode::kMin, {left, splat(i32(runs.chunks.length))});
  }

  ValueId elements_before(ValueId place) {
    const ValueId key = key_at(place);
    const ValueId below = count(key, Predicate::kLt), upto = count(key, Predicate::kLe);
    // Of the keys that are equal the first runs have the first.
    const ValueId equal = sub(upto, below);
    const ValueId before =
        sub(b().add(OpCode::kScan, {equal}, {static_cast<int64_t>(ReduceKind::kSum), int64_t{0}, int64_t{0}}), equal);
    const ValueId left = sub(splat(sub(place, total(below))), before);
    const ValueId taken = b().add(OpCode::kMin, {b().add(OpCode::kMax, {left, splat(i32(0))}), equal});
    return add(below, taken);
  }

 private:
  OpBuilder b() { return OpBuilder(kernel_, *ops_, loc_); }
  ValueId i32(int64_t x) { return b().constant(ElementType::kI32, bits_from_number(ElementType::kI32, x)); }
  ValueId i64(int64_t x) { return b().constant(ElementType::kI64, static_cast<uint64_t>(x)); }
  ValueId splat(ValueId x) { return b().splat(x, shape_); }
  ValueId add(ValueId x, ValueId y) { return b().add(OpCode::kAdd, {x, y}); }
  ValueId sub(ValueId x, ValueId y) { return b().add(OpCode::kSub, {x, y}); }
  ValueId compare(ValueId x, ValueId y, Predicate predicate) {
    return b().add(OpCode::kCmp, {x, y}, {static_cast<int64_t>(predicate)});
  }
  ValueId choose(ValueId condition, ValueId x, ValueId y) { return b().add(OpCode::kSelect, {condition, x, y}); }
  ValueId both(ValueId x, ValueId y) { return b().add(OpCode::kAnd, {x, y}); }
  ValueId total(ValueId counts) {
    return b().add(OpCode::kReduce, {counts}, {static_cast<int64_t>(ReduceKind::kSum), int64_t{0}});
  }
  // (x + y) / 2 rounded down, without overflow.
  ValueId middle(ValueId x, ValueId y) {
    const ElementType element = b().type(x).element;
    ValueId one = b().constant(element, 1);
    one = b().splat(one, std::vector(b().type(x).shape));
    const ValueId half = b().add(OpCode::kShr, {b().add(OpCode::kXor, {x, y}), one});
    return add(both(x, y), half);
  }

  // `for` of so many steps that carries two values.
  using Pair = std::pair<ValueId, ValueId>;
  Pair repeat(int64_t steps, Pair carried, const std::function<Pair(Pair)>& step) {
    const auto fresh = [&](const dsl::Type& type) {
      kernel_.values.push_back({dsl::Type(type), ""});
      return static_cast<ValueId>(kernel_.values.size() - 1);
    };
    const ValueId zero = i32(0), end = i32(steps), one = i32(1);
    Op loop{OpCode::kFor, {zero, end, one, carried.first, carried.second}, {}, {dsl::Expr(1)}, {}, loc_};
    dsl::Region region;
    region.args = {fresh(dsl::scalar_type(ElementType::kI32)), fresh(b().type(carried.first)),
                   fresh(b().type(carried.second))};
    loop.results = {fresh(b().type(carried.first)), fresh(b().type(carried.second))};
    std::vector<Op>* outer = std::exchange(ops_, &region.ops);
    const Pair next = step({region.args[1], region.args[2]});
    b().effect(OpCode::kYield, {next.first, next.second});
    ops_ = outer;
    const Pair out{loop.results[0], loop.results[1]};
    loop.regions.push_back(std::move(region));
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
      out = b().add(OpCode::kXor, {b().add(OpCode::kBitcast, {key}, {ElementType::kI64}), splat(i64(INT64_MIN))});
    } else if (b().type(out).element != ElementType::kI64) {
      out = b().add(OpCode::kCast, {out}, {ElementType::kI64});
    }
    return runs_.descending ? b().add(OpCode::kXor, {out, splat(i64(-1))}) : out;
  }

  ValueId rank_of_float(ValueId key, ElementType element) {
    const bool wide = element == ElementType::kF64;
    const ElementType ints = wide ? ElementType::kI64 : ElementType::kI32;
    const auto constant = [&](uint64_t bits) { return splat(b().constant(ints, bits)); };
    const ValueId zero = splat(b().constant(element, 0));
    const ValueId one_zero = choose(compare(key, zero, Predicate::kEq), zero, key);
    const ValueId bits = b().add(OpCode::kBitcast, {one_zero}, {ints});
    const uint64_t most = wide ? INT64_MAX : INT32_MAX;
    const ValueId sign = b().add(OpCode::kShr, {bits, constant(wide ? 63 : 31)});
    const ValueId ordered = b().add(OpCode::kXor, {bits, both(sign, constant(most))});
    const ValueId is_nan = b().add(OpCode::kMath, {key}, {static_cast<int64_t>(MathFn::kIsnan)});
    return choose(is_nan, constant(most), ordered);
  }

  // By run: how many keys have a rank below `key`, or not above it.
  ValueId count(ValueId key, Predicate predicate) {
    const ValueId limit = splat(key);
    const auto step = [&](Pair range) -> Pair {
      const auto [low, high] = range;
      const ValueId searching = compare(low, high, Predicate::kLt);
      const ValueId at = middle(low, high);
      const ValueId pointers = b().add(OpCode::kAddptr, {splat(runs_.keys), add(starts_, at)});
      const ValueId found = rank(b().add(OpCode::kLoad, {pointers, searching}));
      const ValueId further = both(searching, compare(found, limit, predicate));
      const ValueId stop = b().add(OpCode::kXor, {further, searching});
      return {choose(further, add(at, splat(i32(1))), low), choose(stop, at, high)};
    };
    return repeat(std::bit_width(static_cast<uint64_t>(runs_.chunks.length)), {splat(i32(0)), lengths_}, step).first;
  }

  // The lowest rank with at least `place` keys that are not above it.
  ValueId key_at(ValueId place) {
    const auto step = [&](Pair range) -> Pair {
      const auto [low, high] = range;
      const ValueId at = middle(low, high);
      const ValueId enough = compare(total(count(at, Predicate::kLe)), place, Predicate::kGe);
      const ValueId next = choose(compare(low, high, Predicate::kLt), add(at, i64(1)), low);
      return {choose(enough, low, next), choose(enough, at, high)};
    };
    const ElementType element = b().type(runs_.keys).element;
    const bool wide = dsl::info(element).bits == 64;
    const int64_t low = wide ? INT64_MIN : -(int64_t{1} << 33), high = wide ? INT64_MAX : int64_t{1} << 33;
    return repeat(wide ? 65 : 36, {i64(low), i64(high)}, step).first;
  }

  dsl::Kernel& kernel_;
  dsl::Location loc_;
  const SortedRuns& runs_;
  std::vector<dsl::Expr> shape_;
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
                        ValueId place) {
  return Boundary(kernel, out, loc, runs).elements_before(place);
}

}  // namespace kiln::codegen
