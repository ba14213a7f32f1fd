// Functions over the ops: integers, shapes, elementwise. Each attributes its ops to the line of its call.
#include "library/library_helpers.h"

namespace kiln::dsl::lang {

Value in_f32(const Operand& x, const std::function<Value(Value)>& compute) {
  const Trace::LocationScope scope(x.loc());
  const Value value = materialise(x);
  if (!value.valid()) return {};
  const Type type = value.type();
  if (!type.is_value() || !is_small_float(type.element)) return compute(value);
  return cast(compute(cast(value, f32_t)), type.element);
}

namespace {

// Two ints of one type and shape. Empty after an error.
std::vector<Value> int_pair(const Operand& a, const Operand& b, const std::string& what) {
  std::vector<Value> values = broadcast_all(promote({a, b}, what), what, a.loc());
  if (values.empty() || (is_int(values[0].element()) && values[0].element() != i1_t)) return values;
  report(a.loc(), what + ": takes ints (" + type_text(values[0].type()) + ")");
  return {};
}

// Where the quotient and the remainder of a signed division that truncates are not those that round down.
Value rounds_up(const Value& remainder, const Value& divisor) {
  return (remainder != 0) & (divisor != 0) & ((remainder < 0) != (divisor < 0));
}

// a < b in an order where NaN is greatest.
Value sorts_before(const Value& a, const Value& b) {
  if (is_int(a.element())) return a < b;
  return (a < b) | (isnan(b) & !isnan(a));
}

}  // namespace

Const cdiv(const Const& a, const Const& b) { return (a + b - Const(1)) / b; }

Value cdiv(Operand a, Operand b) {
  const Trace::LocationScope scope(a.loc());
  const Value quotient = a / b + min(a % b, 1);  // a + b - 1 might wrap
  Trace* trace = Trace::current();
  if (!trace || !quotient.valid() || !trace->fact(quotient).launcher) return quotient;
  // A launcher computes in i64 and checks; it gets the plain form.
  auto number = [&](const Operand& x) { return x.is_value() ? trace->fact(x.value()).launcher : x.expr(); };
  const std::optional<Expr> over = number(a), under = number(b);
  if (over && under) trace->fact(quotient).launcher = Expr::apply(AtomKind::kDiv, *over + *under - Expr(1), *under);
  return quotient;
}

Value floor_div(Operand a, Operand b) {
  const Trace::LocationScope scope(a.loc());
  const std::vector<Value> values = int_pair(a, b, "floor_div");
  if (values.empty()) return {};
  const Value quotient = values[0] / values[1];
  if (!info(quotient.element()).is_signed) return quotient;
  return where(rounds_up(values[0] % values[1], values[1]), quotient - 1, quotient);
}

Value floor_mod(Operand a, Operand b) {
  const Trace::LocationScope scope(a.loc());
  const std::vector<Value> values = int_pair(a, b, "floor_mod");
  if (values.empty()) return {};
  const Value remainder = values[0] % values[1];
  if (!info(remainder.element()).is_signed) return remainder;
  return where(rounds_up(remainder, values[1]), remainder + values[1], remainder);
}

std::pair<Value, Value> grouped_order(Operand pid, Operand tiles_m, Operand tiles_n, Operand group) {
  const Trace::LocationScope scope(pid.loc());
  const Value width = group * tiles_n;  // programs of one group
  const Value first_m = pid / width * group;
  const Value height = min(tiles_m - first_m, group);  // the last group may be lower
  // There is a tile for each program: what is divided is positive, and so is the result.
  assume(width, {.low = 1});
  assume(height, {.low = 1});
  const Value within = pid % width;
  return {first_m + within % height, within / height};
}

std::pair<Value, Value> swizzle(Operand i, Operand j, Operand size_i, Operand size_j, Operand group) {
  const Trace::LocationScope scope(i.loc());
  return grouped_order(i * size_j + j, size_i, size_j, group);
}

Value zeros_like(Operand x) {
  const Value value = materialise(x);
  if (!value.valid()) return {};
  const Type type = value.type();
  return broadcast_value(constant(Operand(0, x.loc()), type.element, x.loc()), type.shape, "zeros_like", x.loc());
}

Value flip(Operand x, int axis) {
  const Trace::LocationScope scope(x.loc());
  const Value value = materialise(x);
  if (!value.valid()) return {};
  auto at = resolve_axis(axis, value.rank(), "flip", x.loc());
  if (!at) return {};
  const Const extent = value.extent(static_cast<int>(*at));
  const Value backwards = extent - 1 - arange(0, extent);
  return gather(value, broadcast_value(along_axis(backwards, *at, value.rank()), value.type().shape, "flip", x.loc()),
                static_cast<int>(*at));
}

Value interleave(Operand a, Operand b) {
  const Trace::LocationScope scope(a.loc());
  const Value pairs = join(a, b);
  if (!pairs.valid()) return {};
  Shape shape;
  for (const Expr& extent : pairs.type().shape) shape.push_back(Const(extent));
  if (shape.size() < 2) return pairs;  // of scalars
  shape.pop_back();
  shape.back() = shape.back() * 2;
  return reshape(pairs, shape);
}

// Binary search from the highest power of two down: `count` elements are known to lie before the value, and a step
// forward is taken where the element at its end lies before the value too. How many steps is known with the config.
Value searchsorted(Operand sorted, Operand values, Side side) {
  const Trace::LocationScope scope(sorted.loc());
  std::vector<Value> both = promote({sorted, values}, "searchsorted");
  if (both.empty()) return {};
  if (both[0].rank() != 1) {
    report(sorted.loc(), "searchsorted: the sorted tile must be of rank 1 (" + type_text(both[0].type()) + ")");
    return {};
  }
  const Type shape = both[1].type();
  Const size = 1;
  for (const Expr& extent : shape.shape) size = size * Const(extent);
  const Value wanted = reshape(both[1], {size});
  const Const extent = both[0].extent(0);
  Const steps = 0;
  for (int bit = 0; bit < 31; ++bit) steps = steps + (Const(int64_t{1} << bit) <= extent);
  Var count = zeros(i32_t, {size});
  for (Value i : range(steps)) {
    const Value next = count + (1 << (steps - 1 - i));
    const Value probe = gather(both[0], min(next, extent) - 1, 0);
    const Value before = side == Side::kLeft ? sorts_before(probe, wanted) : !sorts_before(wanted, probe);
    count = where((next <= extent) & before, next, count);
  }
  Shape result;
  for (const Expr& each : shape.shape) result.push_back(Const(each));
  return reshape(count, result);
}

Value clamp(Operand x, Operand low, Operand high) {
  const Trace::LocationScope scope(x.loc());
  return min(max(x, low), high);
}

Value sigmoid(Operand x) {
  return in_f32(x, [](Value v) { return 1 / (1 + exp(-v)); });
}

Value relu(Operand x) {
  const Trace::LocationScope scope(x.loc());
  return max(x, 0);
}

Value silu(Operand x) {
  return in_f32(x, [](Value v) { return v * sigmoid(v); });
}

Value gelu_tanh(Operand x, Accuracy accuracy) {
  return in_f32(x, [accuracy](Value v) {
    // 0.5·v·(1 + tanh(u)) is v / (1 + e^-2u): one exponential, and relative accuracy in the negative tail. As a power
    // of two and a reciprocal, which take the fewest instructions of a GPU.
    constexpr double kMinusTwoLog2E = -2 * 1.44269504088896340736;
    constexpr double kSqrt2OverPi = 0.79788456080286535588;
    const Value exponent = v * ((v * v) * (kMinusTwoLog2E * kSqrt2OverPi * 0.044715) + kMinusTwoLog2E * kSqrt2OverPi);
    return v * div(1, 1 + exp2(exponent, accuracy), fast);
  });
}

Value gelu_erf(Operand x) {
  return in_f32(x, [](Value v) {
    constexpr double kSqrtHalf = 0.70710678118654752440;
    return 0.5 * v * (1 + erf(v * kSqrtHalf));
  });
}

Value softplus(Operand x) {
  return in_f32(x, [](Value v) { return max(v, 0) + log1p(exp(-abs(v))); });
}

}  // namespace kiln::dsl::lang
