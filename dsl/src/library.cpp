// Functions over the ops. Each attributes its ops to the line of its call.
#include "kiln/dsl/library.h"

#include <functional>

#include "trace.h"

namespace kiln::dsl::lang {
namespace {

// Runs a computation in f32 for floats below 32 bits and rounds its result once, at the end.
Value in_f32(const Operand& x, const std::function<Value(Value)>& compute) {
  const Trace::LocationScope scope(x.loc());
  const Value value = materialise(x);
  if (!value.valid()) return {};
  const Type type = value.type();
  if (type.pointer || !is_small_float(type.element)) return compute(value);
  return cast(compute(cast(value, f32_t)), type.element);
}

}  // namespace

Const cdiv(const Const& a, const Const& b) { return (a + b - Const(1)) / b; }

Value cdiv(Operand a, Operand b) {
  const Trace::LocationScope scope(a.loc());
  return (a + b - 1) / b;
}

std::pair<Value, Value> grouped_order(Operand pid, Operand tiles_m, Operand tiles_n, Operand group) {
  const Trace::LocationScope scope(pid.loc());
  const Value width = group * tiles_n;  // programs of one group
  const Value first_m = pid / width * group;
  const Value height = min(tiles_m - first_m, group);  // the last group may be lower
  const Value within = pid % width;
  return {first_m + within % height, within / height};
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

Value gelu_tanh(Operand x) {
  return in_f32(x, [](Value v) {
    // 0.5·v·(1 + tanh(u)) is v / (1 + e^-2u): one exponential, and relative accuracy in the negative tail.
    constexpr double kTwoSqrt2OverPi = 2 * 0.79788456080286535588;
    const Value minus_2u = v * ((v * v) * (-kTwoSqrt2OverPi * 0.044715) + (-kTwoSqrt2OverPi));
    return v / (1 + exp(minus_2u));
  });
}

Value gelu_erf(Operand x) {
  return in_f32(x, [](Value v) {
    constexpr double kSqrtHalf = 0.70710678118654752440;
    return 0.5 * v * (1 + erf(v * kSqrtHalf));
  });
}

Value softmax(Operand x, int axis) {
  return in_f32(x, [axis, loc = x.loc()](Value v) -> Value {
    auto index = resolve_axis(axis, v.rank(), "softmax", loc);
    if (!index) return {};
    const int at = static_cast<int>(*index);
    // What a reduction gives broadcasts over the other axes by itself only where there are none.
    auto along_axis = [&](Value reduced) { return v.rank() == 1 ? reduced : expand_dims(reduced, at); };
    const Value e = exp(v - along_axis(reduce_max(v, at)));
    return e * along_axis(1 / sum(e, at));
  });
}

}  // namespace kiln::dsl::lang
