// Functions of several tensors, one element at a time, by PyTorch's promotion.
#include <cmath>

#include "aten/import/functions.h"

namespace kiln::graph::aten {
namespace {

constexpr Binary kEqual = operator==;
constexpr Binary kLess = operator<, kAtMost = operator<=, kGreater = operator>, kAtLeast = operator>=;
constexpr Binary kShiftLeft = operator<<, kShiftRight = operator>>;

Term other_of(Arguments& a) { return a.term("other"); }

// `other` times alpha; of small floats the sum is of f32.
Results added(Arguments& a, Term x, Term y, Binary op) {
  const Term alpha = a.term("alpha", Term(int64_t{1}));
  if (!a.ok()) return {};
  const ElementType type = common(x, y);
  const auto* whole = std::get_if<int64_t>(&alpha);
  const auto* real = std::get_if<double>(&alpha);
  const bool is_one = (whole && *whole == 1) || (real && *real == 1);
  if (is_one) return {binary(op, x, y, type)};
  const ElementType in = dsl::is_small_float(type) ? f32 : type;
  return {as(op(as(x, in), binary(operator*, y, alpha, in)), type)};
}

// i1 has no sum: `or`.
Results add(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  const Term alpha = a.term("alpha", Term(int64_t{1}));
  if (a.ok() && common(x, y) == i1) return {binary(operator|, x, binary(operator&, y, alpha, i1), i1)};
  return added(a, x, y, operator+);
}
Results subtract(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (a.ok() && common(x, y) == i1) a.fail("bools have no difference");
  return added(a, x, y, operator-);
}
Results subtract_from(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (a.ok() && common(x, y) == i1) a.fail("bools have no difference");
  return added(a, y, x, operator-);
}

Results multiply(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  return {common(x, y) == i1 ? binary(operator&, x, y, i1) : binary(operator*, x, y)};
}

// --- quotients ---

// Of ints, towards -inf: the truncated one, less 1 where the remainder has another sign than the divisor.
Tensor floored(const Operand& x, const Operand& y, ElementType type) {
  const Tensor r = x % y, q = x / y;
  if (!dsl::info(type).is_signed) return q;
  return where((r != 0) & ((r < 0) ^ (y < 0)), q - 1, q);
}

Results divide(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  const std::string mode = a.word("rounding_mode", "");
  if (!a.ok()) return {};
  const ElementType type = common(x, y);
  if (mode.empty()) return {binary(operator/, x, y, as_real(type))};
  if (mode != "trunc" && mode != "floor") a.fail("`rounding_mode` is trunc or floor, not " + mode);
  if (!dsl::is_float(type)) {
    return {mode == "trunc" ? binary(operator/, x, y, type) : floored(as(x, type), as(y, type), type)};
  }
  const ElementType in = dsl::is_small_float(type) ? f32 : type;
  const Tensor q = binary(operator/, x, y, in);
  return {as(mode == "trunc" ? trunc(q) : floor(q), type)};
}

Results floor_divide(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  const ElementType type = common(x, y);
  if (dsl::is_float(type)) {
    const ElementType in = dsl::is_small_float(type) ? f32 : type;
    return {as(floor(binary(operator/, x, y, in)), type)};
  }
  return {floored(as(x, type), as(y, type), type)};
}

Results remainder_towards_zero(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  return {binary(operator%, x, y)};
}

// With the divisor's sign.
Results remainder(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  const ElementType type = common(x, y), in = dsl::is_small_float(type) ? f32 : type;
  const Operand divisor = as(y, in);
  const Tensor r = as(x, in) % divisor;
  if (!dsl::info(type).is_signed) return {r};
  return {as(where((r != 0) & ((r < 0) ^ (divisor < 0)), r + divisor, r), type)};
}

// --- powers ---

// Of ints, by squaring. Of tensors of exponents below 64; the inverses of all but 1 and -1 are 0.
Tensor int_powers(const Tensor& x, const Tensor& exponents) {
  const Tensor p = exponents.element() == i1 ? as(exponents, u8) : exponents;
  Tensor out = ones_like(x), power = x;
  for (int bit = 0; bit < 6; ++bit) {
    const Tensor is_set = ((p >> bit) & 1) != 0;
    out = where(is_set, out * power, out);
    if (bit < 5) power = power * power;
  }
  if (!dsl::info(x.element()).is_signed) return out;
  return where(p < 0, where(x == 1, 1, where(x == -1, where((p & 1) != 0, -1, 1), 0)), out);
}
Tensor int_power(const Tensor& x, int64_t exponent) {
  Tensor out = ones_like(x), power = x;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) out = out * power;
    if (exponent > 1) power = power * power;
  }
  return out;
}

Results power(Arguments& a) {
  const Term x = a.term("self"), p = a.term("exponent");
  if (!a.ok()) return {};
  const ElementType type = common(x, p);
  const auto* exponent = std::get_if<int64_t>(&p);
  if (dsl::is_float(type)) {
    const auto* real = std::get_if<double>(&p);
    const double number = exponent ? as_double(*exponent) : real ? *real : 0;
    const Tensor* base = std::get_if<Tensor>(&x);
    // What PyTorch computes otherwise, too.
    if (base && is_float(*base) && number == 2) return {*base * *base};
    if (base && is_float(*base) && number == 3) return {like(wide(*base) * wide(*base) * wide(*base), *base)};
    if (base && is_float(*base) && real && number == 0.5) return {sqrt(*base)};
    return {binary(pow, x, p, type)};
  }
  const ElementType ints = type == i1 ? i64 : type;
  if (exponent && *exponent >= 0) return {as(int_power(as(std::get<Tensor>(x), ints), *exponent), type)};
  const Tensor base = as(tensor_of(x), ints), powers = as(tensor_of(p), ints);
  return {as(int_powers(base, powers), type)};
}

// --- of one common type ---

template <Binary op>
Results of_both(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  return {binary(op, x, y)};
}
template <Binary op>
Results of_reals(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  return {binary(op, x, y, as_real(common(x, y)))};
}
template <Binary op>
Results of_truths(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  return {op(truth(tensor_of(x)), truth(tensor_of(y)))};
}
template <Binary op, Binary on_bools>
Results extreme(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  return {common(x, y) == i1 ? binary(on_bools, x, y) : binary(op, x, y)};
}
template <Binary op, Binary on_bools>
Results bound(Arguments& a) {
  const Term x = a.term("self"), y = a.term(a.has("min") ? "min" : "max");
  if (!a.ok()) return {};
  return {common(x, y) == i1 ? binary(on_bools, x, y) : binary(op, x, y)};
}
// NaN loses.
template <Binary op, Binary on_bools>
Results known_extreme(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  const ElementType type = common(x, y);
  if (!dsl::is_float(type)) return {type == i1 ? binary(on_bools, x, y) : binary(op, x, y)};
  const Operand p = as(x, type), q = as(y, type);
  return {where(isnan(p), q, where(isnan(q), p, op(p, q)))};
}

Results log_add(Arguments& a) {
  const bool of_two = a.base() == "logaddexp2";
  const Term x = wide(a.term("self")), y = wide(other_of(a));
  if (!a.ok()) return {};
  const Tensor p = tensor_of(x), q = tensor_of(y);
  const Tensor d = where(p == q, 0, abs(p - q));
  const Tensor sum = of_two ? log2(1 + exp2(-d)) : log1p(exp(-d));
  return {as(max(p, q) + sum, common(a.term("self"), a.term("other")))};
}

// 0 where x is 0, but NaN where y is.
Results x_log(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  const ElementType type = as_real(common(x, y)), in = dsl::is_small_float(type) ? f32 : type;
  const Operand p = as(x, in), q = as(y, in);
  const Tensor product = p * (a.base() == "xlogy" ? log(q) : log1p(q));
  return {as(where(isnan(q), q, where(p == 0, 0, product)), type)};
}

Results heaviside(Arguments& a) {
  const Tensor x = a.tensor("self"), at_zero = a.tensor("values");
  return {where(x == 0, at_zero, as(x > 0, x.element()))};
}

Results scaled_by_power_of_two(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  const ElementType type = as_real(common(x, y)), in = dsl::is_small_float(type) ? f32 : type;
  return {as(as(x, in) * exp2(as(y, in)), type)};
}

// --- of three ---

Results product_added(Arguments& a) {
  const Tensor x = a.tensor("self"), p = a.tensor("tensor1"), q = a.tensor("tensor2");
  const Term value = a.term("value", Term(int64_t{1}));
  if (!a.ok()) return {};
  const bool divides = a.base() == "addcdiv";
  ElementType type = common(Term(x), Term(p), Term(q));
  if (divides) type = as_real(type);
  const ElementType in = dsl::is_small_float(type) ? f32 : type;
  const Tensor product = divides ? as(p, in) / as(q, in) : as(p, in) * as(q, in);
  return {as(as(x, in) + binary(operator*, product, value, in), type)};
}

// From the nearer end, so that both ends are met.
Results interpolated(Arguments& a) {
  const Tensor x = a.tensor("self"), end = a.tensor("end");
  const Term weight = a.term("weight");
  if (!a.ok()) return {};
  const Tensor from = wide(x), to = wide(end), d = to - from;
  if (const auto* number = std::get_if<double>(&weight)) {
    return {like(std::abs(*number) < 0.5 ? from + *number * d : to - (1 - *number) * d, x)};
  }
  const Operand w = as(weight, from.element());
  return {like(where(abs(w) < 0.5, from + w * d, to - (1 - w) * d), x)};
}

Results chosen(Arguments& a) {
  const Tensor condition = truth(a.tensor("condition"));
  const Term x = a.term("self"), y = other_of(a);
  if (!a.ok()) return {};
  const ElementType type = common(x, y);
  return {where(condition, as(x, type), is_tensor(x) ? as(y, type) : as(tensor_of(y), type))};
}

Results mask_filled(Arguments& a) {
  const Tensor x = a.tensor("self"), mask = truth(a.tensor("mask"));
  const Term value = a.term("value");
  if (!a.ok()) return {};
  return {where(mask, as(value, x.element()), x)};
}

// A slope for each channel, axis 1.
Results prelu_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  Tensor weight = a.tensor("weight");
  if (!a.ok()) return {};
  if (weight.rank() == 1 && x.rank() > 1 && a.base() == "prelu") {
    Shape shape(static_cast<size_t>(x.rank() - 1), Dim(1));
    shape[0] = weight.extent(0);
    weight = reshape(weight, shape);
  }
  return {where(x > 0, x, weight * x)};
}

// In f64.
Results float_power(Arguments& a) {
  const Term x = a.term("self"), p = a.term("exponent");
  return {a.ok() ? binary(pow, x, p, f64) : Tensor()};
}

// |self - other| ≤ atol + rtol·|other|, or equal; NaN with NaN where that is asked for.
Results close(Arguments& a) {
  const Term x = a.term("self"), y = other_of(a);
  const double rtol = a.real("rtol", 1e-5), atol = a.real("atol", 1e-8);
  const bool nan = a.flag("equal_nan", false);
  if (!a.ok()) return {};
  const ElementType type = common(x, y);
  if (type == i1) return {binary(kEqual, x, y)};
  const ElementType in = dsl::is_float(type) ? (type == f64 ? f64 : f32) : f64;
  const Operand p = as(x, in), q = as(y, in);
  const Tensor bound = atol + rtol * abs(q), d = abs(p - q);
  Tensor out = (p == q) | ((d <= bound) & ~isinf(d));
  if (nan) out = out | (isnan(p) & isnan(q));
  return {out};
}

constexpr Function kArithmeticFunctions[] = {
    {"add.Scalar", add},
    {"add.Tensor", add},
    {"addcdiv", product_added},
    {"addcmul", product_added},
    {"atan2", of_reals<atan2>},
    {"bitwise_and.Scalar", of_both<operator&>},
    {"bitwise_and.Tensor", of_both<operator&>},
    {"__and__.Scalar", of_both<operator&>},
    {"__and__.Tensor", of_both<operator&>},
    {"bitwise_left_shift.Tensor", of_both<kShiftLeft>},
    {"bitwise_left_shift.Tensor_Scalar", of_both<kShiftLeft>},
    {"__lshift__.Scalar", of_both<kShiftLeft>},
    {"__lshift__.Tensor", of_both<kShiftLeft>},
    {"bitwise_or.Scalar", of_both<operator| >},
    {"bitwise_or.Tensor", of_both<operator| >},
    {"__or__.Scalar", of_both<operator| >},
    {"__or__.Tensor", of_both<operator| >},
    {"bitwise_right_shift.Tensor", of_both<kShiftRight>},
    {"bitwise_right_shift.Tensor_Scalar", of_both<kShiftRight>},
    {"__rshift__.Scalar", of_both<kShiftRight>},
    {"__rshift__.Tensor", of_both<kShiftRight>},
    {"bitwise_xor.Scalar", of_both<operator^ >},
    {"bitwise_xor.Tensor", of_both<operator^ >},
    {"__xor__.Scalar", of_both<operator^ >},
    {"__xor__.Tensor", of_both<operator^ >},
    {"clamp_max", bound<min, operator&>},
    {"clamp_max.Tensor", bound<min, operator&>},
    {"clamp_min", bound<max, operator| >},
    {"clamp_min.Tensor", bound<max, operator| >},
    {"copysign.Scalar", of_reals<copysign>},
    {"copysign.Tensor", of_reals<copysign>},
    {"div.Scalar", divide},
    {"div.Scalar_mode", divide},
    {"div.Tensor", divide},
    {"div.Tensor_mode", divide},
    {"eq.Scalar", of_both<operator== >},
    {"eq.Tensor", of_both<operator== >},
    {"floor_divide", floor_divide},
    {"floor_divide.Scalar", floor_divide},
    {"fmax", known_extreme<max, operator| >},
    {"fmin", known_extreme<min, operator&>},
    {"fmod.Scalar", remainder_towards_zero},
    {"fmod.Tensor", remainder_towards_zero},
    {"ge.Scalar", of_both<kAtLeast>},
    {"ge.Tensor", of_both<kAtLeast>},
    {"gt.Scalar", of_both<kGreater>},
    {"gt.Tensor", of_both<kGreater>},
    {"heaviside", heaviside},
    {"hypot", of_reals<hypot>},
    {"ldexp.Tensor", scaled_by_power_of_two},
    {"le.Scalar", of_both<kAtMost>},
    {"le.Tensor", of_both<kAtMost>},
    {"lerp.Scalar", interpolated},
    {"lerp.Tensor", interpolated},
    {"logaddexp", log_add},
    {"logaddexp2", log_add},
    {"logical_and", of_truths<operator&>},
    {"logical_or", of_truths<operator| >},
    {"logical_xor", of_truths<operator^ >},
    {"lt.Scalar", of_both<kLess>},
    {"lt.Tensor", of_both<kLess>},
    {"masked_fill.Scalar", mask_filled},
    {"masked_fill.Tensor", mask_filled},
    {"max.other", extreme<max, operator| >},
    {"maximum", extreme<max, operator| >},
    {"min.other", extreme<min, operator&>},
    {"minimum", extreme<min, operator&>},
    {"mul.Scalar", multiply},
    {"mul.Tensor", multiply},
    {"ne.Scalar", of_both<operator!= >},
    {"ne.Tensor", of_both<operator!= >},
    {"pow.Scalar", power},
    {"pow.Tensor_Scalar", power},
    {"pow.Tensor_Tensor", power},
    {"prelu", prelu_of},
    {"_prelu_kernel", prelu_of},
    {"remainder.Scalar", remainder},
    {"remainder.Scalar_Tensor", remainder},
    {"remainder.Tensor", remainder},
    {"rsub.Scalar", subtract_from},
    {"rsub.Tensor", subtract_from},
    {"special_xlog1py", x_log},
    {"sub.Scalar", subtract},
    {"sub.Tensor", subtract},
    {"true_divide.Tensor", divide},
    {"where.Scalar", chosen},
    {"where.ScalarOther", chosen},
    {"where.ScalarSelf", chosen},
    {"where.self", chosen},
    {"xlogy.Scalar_Other", x_log},
    {"xlogy.Scalar_Self", x_log},
    {"xlogy.Tensor", x_log},
    {"divide.Tensor", divide},
    {"divide.Scalar", divide},
    {"divide.Tensor_mode", divide},
    {"multiply.Tensor", multiply},
    {"multiply.Scalar", multiply},
    {"subtract.Tensor", subtract},
    {"subtract.Scalar", subtract},
    {"greater.Tensor", of_both<kGreater>},
    {"greater.Scalar", of_both<kGreater>},
    {"greater_equal.Tensor", of_both<kAtLeast>},
    {"greater_equal.Scalar", of_both<kAtLeast>},
    {"less.Tensor", of_both<kLess>},
    {"less.Scalar", of_both<kLess>},
    {"less_equal.Tensor", of_both<kAtMost>},
    {"less_equal.Scalar", of_both<kAtMost>},
    {"not_equal.Tensor", of_both<operator!= >},
    {"not_equal.Scalar", of_both<operator!= >},
    {"float_power.Tensor_Tensor", float_power},
    {"float_power.Tensor_Scalar", float_power},
    {"float_power.Scalar", float_power},
    {"isclose", close},
};

}  // namespace

std::span<const Function> arithmetic_functions() { return kArithmeticFunctions; }

}  // namespace kiln::graph::aten
