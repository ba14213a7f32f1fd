// Functions of one tensor, one element at a time; and conversions.
#include <cmath>
#include <limits>
#include <numbers>

#include "aten/import/functions.h"

namespace kiln::graph::aten {
namespace {

using Unary = Tensor (*)(Operand);
constexpr Unary kNegated = operator-, kInverted = operator~;

template <Unary function>
Results of_self(Arguments& a) {
  return {function(a.tensor("self"))};
}

// Several ops that are rounded once.
using Several = Tensor (*)(const Tensor&);
template <Several function>
Results wide_self(Arguments& a) {
  const Tensor x = a.tensor("self");
  if (!a.ok()) return {};
  const Tensor real = as(x, as_real(x.element()));
  return {as(function(wide(real)), real.element())};
}

// Of ints: themselves.
template <Unary function>
Results whole_part(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {is_float(x) ? function(x) : x};
}

Results rounded_decimals(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int64_t decimals = a.integer("decimals", 0);
  if (!a.ok() || !is_float(x) || decimals == 0) return {is_float(x) ? round(x) : x};
  const double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const Tensor y = decimals > 0 ? round(wide(x) * power) / power : round(wide(x) / power) * power;
  return {like(y, x)};
}

Results magnitude(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {x.element() == i1 || !dsl::info(x.element()).is_signed ? x : abs(x)};
}

Results sign_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  if (x.element() == i1) return {x};
  return {is_float(x) ? where(isnan(x), 0, sign(x)) : sign(x)};
}

Results sign_bit(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {is_float(x) ? signbit(x) : x.element() == i1 ? x ^ x : x < 0};
}

Results is_finite(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {~(isnan(x) | isinf(x))};
}
Results is_infinite_above(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {isinf(x) & ~signbit(x)};
}
Results is_infinite_below(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {isinf(x) & signbit(x)};
}

Results logical_not_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {x.element() == i1 ? ~x : x == 0};
}

Tensor acosh_of(const Tensor& x) { return log(x + sqrt(x - 1) * sqrt(x + 1)); }
Tensor asinh_of(const Tensor& x) {
  const Tensor m = abs(x);
  return copysign(log1p(m + m * (m / (1 + hypot(m, 1)))), x);
}
Tensor atanh_of(const Tensor& x) { return 0.5 * log1p((2 * x) / (1 - x)); }
Tensor fraction_of(const Tensor& x) { return x - trunc(x); }
Tensor degrees_of(const Tensor& x) { return x * (180 / std::numbers::pi); }
Tensor radians_of(const Tensor& x) { return x * (std::numbers::pi / 180); }
Tensor log_sigmoid_of(const Tensor& x) { return min(x, 0) - log1p(exp(-abs(x))); }
Tensor sinc_of(const Tensor& x) {
  const Tensor angle = x * std::numbers::pi;
  return where(x == 0, 1, sin(angle) / angle);
}
Tensor selu_of(const Tensor& x) {
  // The constants of Klambauer and others 2017.
  constexpr double kScale = 1.0507009873554804934193349852946, kAlpha = 1.6732632423543772848170429916717;
  return kScale * where(x > 0, x, kAlpha * expm1(min(x, 0)));
}

Results reciprocal_of(Arguments& a) { return {reciprocal(a.tensor("self"))}; }

Results squared(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {x.element() == i1 ? as(x, i64) : x * x};
}

// --- with parameters ---

Results gelu_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const std::string by = a.word("approximate", "none");
  if (by != "none" && by != "tanh") a.fail("`approximate` is none or tanh, not " + by);
  return {gelu(x, by == "tanh" ? GeluKind::kTanh : GeluKind::kErf)};
}

Results leaky(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {leaky_relu(x, a.real("negative_slope", 0.01))};
}

Results elu_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const double alpha = a.real("alpha", 1), scale = a.real("scale", 1), inner = a.real("input_scale", 1);
  if (scale == 1 && inner == 1) return {elu(x, alpha)};
  const Tensor w = wide(x);
  return {like(scale * where(w > 0, w, alpha * expm1(min(w * inner, 0))), x)};
}

Results celu_of(Arguments& a) {
  const Tensor x = a.tensor("self"), w = wide(x);
  const double alpha = a.real("alpha", 1);
  return {like(where(w > 0, w, alpha * expm1(min(w, 0) / alpha)), x)};
}

// Bounds of PyTorch's kind: ints stay ints beside ints.
Results clamped(Arguments& a) {
  const Term x = a.tensor("self"), low = a.term("min", Term(Tensor())), high = a.term("max", Term(Tensor()));
  const bool has_low = a.has("min"), has_high = a.has("max");
  if (!a.ok()) return {};
  if (!has_low && !has_high) a.fail("neither `min` nor `max` is given");
  const ElementType type = has_low && has_high ? common(x, low, high) : common(x, has_low ? low : high);
  const Tensor y = std::get<Tensor>(x);
  if (dsl::is_float(type) && !is_tensor(low) && !is_tensor(high) && !std::holds_alternative<Dim>(low) &&
      !std::holds_alternative<Dim>(high)) {
    constexpr double kMost = std::numeric_limits<double>::infinity();
    return {clamp(as(y, type), a.real("min", -kMost), a.real("max", kMost))};
  }
  Tensor out = as(y, type);
  if (has_low) out = max(out, as(low, type));
  if (has_high) out = min(out, as(high, type));
  return {out};
}

Results hardtanh_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool six = a.base() == "relu6";
  const double low = six ? 0 : a.real("min_val", -1), high = six ? 6 : a.real("max_val", 1);
  const ElementType type = x.element();
  return {is_float(x) ? clamp(x, low, high) : min(max(x, as(Term(low), type)), as(Term(high), type))};
}

Results softplus_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const double beta = a.real("beta", 1), threshold = a.real("threshold", 20);
  const Tensor w = wide(x);
  const Tensor y = beta == 1 ? softplus(x) : like(softplus(w * beta) / beta, x);
  // Above 20 the two are equal but for their rounding.
  return {threshold >= 20 ? y : where(w * beta > threshold, x, y)};
}

Results softshrink_of(Arguments& a) {
  const Tensor x = a.tensor("self"), w = wide(x);
  const double bound = a.real("lambd", 0.5);
  // NaN stays.
  return {like(where(abs(w) <= bound, 0, w - copysign(full(w.shape(), bound, w.element()), w)), x)};
}

Results hardshrink_of(Arguments& a) {
  const Tensor x = a.tensor("self"), w = wide(x);
  return {where(abs(w) <= a.real("lambd", 0.5), 0, x)};
}

Results logit_of(Arguments& a) {
  const Tensor given = a.tensor("self"), real = as(given, as_real(given.element()));
  Tensor x = wide(real);
  if (a.has("eps")) {
    const double eps = a.real("eps");
    x = clamp(x, eps, 1 - eps);
  }
  return {like(log(x / (1 - x)), real)};
}

Results threshold_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Term bound = a.term("threshold"), value = a.term("value");
  if (!a.ok()) return {};
  return {where(binary(operator<=, x, bound), as(value, x.element()), x)};
}

Results nan_to_num_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  if (!is_float(x)) return {x};
  const ElementType type = x.element();
  // The type's ends, where no number is given.
  const double most = type == f16    ? 65504
                      : type == bf16 ? 0x1.fep127
                      : type == f64  ? std::numeric_limits<double>::max()
                                     : std::numeric_limits<float>::max();
  const double nan = a.real("nan", 0), above = a.real("posinf", most), below = a.real("neginf", -most);
  return {where(isnan(x), as(Term(nan), type),
                where(isinf(x), where(signbit(x), as(Term(below), type), full({}, as(Term(above), type), type)), x))};
}

// The first half times the sigmoid of the second.
Results gated(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), -1);
  if (a.ok() && x.rank() == 0) a.fail("a scalar has no halves");
  if (!a.ok()) return {};
  const Dim n = x.extent(at), half = n / 2;
  return {slice(x, at, 0, half) * sigmoid(slice(x, at, half, n))};
}

// --- conversions ---

Results converted(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {as(x, a.element("dtype", x.element()))};
}

Results as_other(Arguments& a) {
  const Tensor x = a.tensor("self"), other = a.tensor("other");
  return {like(x, other)};
}

Results all_real(Arguments& a) { return {full(a.tensor("self").shape(), 1, i1)}; }

// -x·log(x).
Tensor entropy_of(const Tensor& x) {
  return where(isnan(x), x, where(x > 0, -(x * log(x)), where(x == 0, 0, -std::numeric_limits<double>::infinity())));
}

// A slope for negative numbers: in training a random one.
Results randomised_leaky(Arguments& a) {
  const Tensor x = a.tensor("self"), w = wide(x);
  const double low = a.real("lower", 0.125), high = a.real("upper", 1.0 / 3);
  if (a.flag("training", false)) a.fail("random slopes");
  return {like(where(w > 0, w, w * ((low + high) / 2)), x)};
}

constexpr Function kElementwiseFunctions[] = {
    {"abs", magnitude},
    {"absolute", magnitude},
    {"acos", of_self<acos>},
    {"acosh", wide_self<acosh_of>},
    {"asin", of_self<asin>},
    {"asinh", wide_self<asinh_of>},
    {"atan", of_self<atan>},
    {"atanh", wide_self<atanh_of>},
    {"bitwise_not", of_self<kInverted>},
    {"ceil", whole_part<ceil>},
    {"celu", celu_of},
    {"clamp", clamped},
    {"clamp.Tensor", clamped},
    {"clip", clamped},
    {"cos", of_self<cos>},
    {"cosh", of_self<cosh>},
    {"deg2rad", wide_self<radians_of>},
    {"elu", elu_of},
    {"erf", of_self<erf>},
    {"erfc", of_self<erfc>},
    {"exp", of_self<exp>},
    {"exp2", of_self<exp2>},
    {"expm1", of_self<expm1>},
    {"floor", whole_part<floor>},
    {"frac", wide_self<fraction_of>},
    {"gelu", gelu_of},
    {"glu", gated},
    {"hardshrink", hardshrink_of},
    {"hardsigmoid", of_self<hard_sigmoid>},
    {"hardswish", of_self<hard_swish>},
    {"hardtanh", hardtanh_of},
    {"isfinite", is_finite},
    {"isinf", of_self<isinf>},
    {"isnan", of_self<isnan>},
    {"isneginf", is_infinite_below},
    {"isposinf", is_infinite_above},
    {"leaky_relu", leaky},
    {"log", of_self<log>},
    {"log10", of_self<log10>},
    {"log1p", of_self<log1p>},
    {"log2", of_self<log2>},
    {"log_sigmoid", wide_self<log_sigmoid_of>},
    {"log_sigmoid_forward", wide_self<log_sigmoid_of>},
    {"logical_not", logical_not_of},
    {"logit", logit_of},
    {"mish", of_self<mish>},
    {"nan_to_num", nan_to_num_of},
    {"neg", of_self<kNegated>},
    {"rad2deg", wide_self<degrees_of>},
    {"reciprocal", reciprocal_of},
    {"relu", of_self<relu>},
    {"relu6", hardtanh_of},
    {"round", whole_part<round>},
    {"round.decimals", rounded_decimals},
    {"rsqrt", of_self<rsqrt>},
    {"selu", wide_self<selu_of>},
    {"sgn", sign_of},
    {"sigmoid", of_self<sigmoid>},
    {"sign", sign_of},
    {"signbit", sign_bit},
    {"silu", of_self<silu>},
    {"sin", of_self<sin>},
    {"sinc", wide_self<sinc_of>},
    {"sinh", of_self<sinh>},
    {"softplus", softplus_of},
    {"softshrink", softshrink_of},
    {"sqrt", of_self<sqrt>},
    {"square", squared},
    {"tan", of_self<tan>},
    {"tanh", of_self<tanh>},
    {"threshold", threshold_of},
    {"trunc", whole_part<trunc>},
    // conversions
    {"_to_copy", converted},
    {"to.device", converted, Sharing::kPerhaps},
    {"to.dtype", converted, Sharing::kPerhaps},
    {"to.dtype_layout", converted, Sharing::kPerhaps},
    {"to.other", as_other, Sharing::kPerhaps},
    {"type_as", as_other, Sharing::kPerhaps},
    {"isreal", all_real},
    {"special_entr", wide_self<entropy_of>},
    {"rrelu", randomised_leaky},
    {"rrelu_with_noise", randomised_leaky},
    {"negative", of_self<kNegated>},
    {"fix", whole_part<trunc>},
    {"special_expit", of_self<sigmoid>},
    {"arccos", of_self<acos>},
    {"arcsin", of_self<asin>},
    {"arctan", of_self<atan>},
};

}  // namespace

std::span<const Function> elementwise_functions() { return kElementwiseFunctions; }

}  // namespace kiln::graph::aten
