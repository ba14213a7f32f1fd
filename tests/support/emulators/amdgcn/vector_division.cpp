// The three steps around a division's Newton iteration: scaling of the operands, the last fused step with the scale
// taken back, and the special cases. Operands: v_div_scale D, VCC, s0, denominator, numerator.
#include "float_math.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

// The figures of a format: where operands are too far apart, by which power scaling goes, where a numerator is tiny.
template <class K>
struct Limits;
template <>
struct Limits<F32> {
  static constexpr int far = 96, scale = 64, tiny = 23, bias = 127, underflow = -150, mantissa_bits = 23;
};
template <>
struct Limits<F64> {
  static constexpr int far = 768, scale = 128, tiny = 53, bias = 1023, underflow = -1075, mantissa_bits = 52;
};

template <class K>
int biased_exponent(typename K::Value value) {
  return static_cast<int>(K::encode(value, false) >> Limits<K>::mantissa_bits & (2 * Limits<K>::bias + 1));
}

template <class V>
bool is_subnormal(V value) {
  return std::fpclassify(value) == FP_SUBNORMAL;
}

// Whether a / b, computed without a bound on exponents, is below the normal numbers.
template <class K>
bool quotient_is_subnormal(typename K::Value a, typename K::Value b) {
  int exponent_a = 0, exponent_b = 0;
  auto mantissa_a = std::frexp(std::fabs(a), &exponent_a);
  auto mantissa_b = std::frexp(std::fabs(b), &exponent_b);
  int exponent = exponent_a - exponent_b - (mantissa_a < mantissa_b ? 1 : 0);
  return std::isfinite(a) && std::isfinite(b) && exponent < 1 - Limits<K>::bias;
}

template <class K>
struct Scaled {
  typename K::Value value;
  bool flag;
};

template <class K>
Scaled<K> scale(typename K::Value s0, typename K::Value denominator, typename K::Value numerator) {
  using L = Limits<K>;
  using V = typename K::Value;
  const bool is_denominator = K::encode(s0, false) == K::encode(denominator, false);
  if (numerator == 0 || denominator == 0) return {std::numeric_limits<V>::quiet_NaN(), false};
  if (biased_exponent<K>(numerator) - biased_exponent<K>(denominator) >= L::far)
    return {is_denominator ? std::ldexp(s0, L::scale) : s0, true};
  if (is_subnormal(denominator)) return {std::ldexp(s0, L::scale), false};
  bool reciprocal = quotient_is_subnormal<K>(V{1}, denominator);
  bool quotient = quotient_is_subnormal<K>(numerator, denominator);
  if (reciprocal && quotient) return {is_denominator ? std::ldexp(s0, -L::scale) : s0, true};
  if (reciprocal) return {std::ldexp(s0, -L::scale), false};
  if (quotient) {
    bool is_numerator = K::encode(s0, false) == K::encode(numerator, false);
    return {is_numerator ? std::ldexp(s0, L::scale) : s0, true};
  }
  if (biased_exponent<K>(numerator) <= L::tiny) return {std::ldexp(s0, L::scale), false};
  return {s0, false};
}

template <class K>
void run_scale(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<K> s0, s1, s2, result;
  const auto* value = fetch<K>(wave, instruction, 2, s0);
  const auto* denominator = fetch<K>(wave, instruction, 3, s1);
  const auto* numerator = fetch<K>(wave, instruction, 4, s2);
  uint64_t flags = 0;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    Scaled<K> scaled = scale<K>(K::decode(value[lane]), K::decode(denominator[lane]), K::decode(numerator[lane]));
    result[lane] = K::encode(scaled.value, false);
    flags |= uint64_t{scaled.flag} << lane;
  }
  wave.set_mask_at(instruction.operands[1].index, flags & wave.write_mask);
  store<K>(wave, instruction, 0, result);
}

// fma(a, b, c) times a power of two, rounded once: a quotient scaled up is taken down, and the other way round.
template <class K>
typename K::Value scaled_fma(typename K::Value a, typename K::Value b, typename K::Value c) {
  const int power = biased_exponent<K>(c) > Limits<K>::bias ? Limits<K>::scale : -Limits<K>::scale;
  __float128 factor = 1;
  for (int i = 0; i < std::abs(power); ++i) factor *= power > 0 ? 2 : 0.5;
  __float128 exact = static_cast<__float128>(a) * b + c;
  return static_cast<typename K::Value>(exact * factor);
}

template <class K>
void run_fmas(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<K> as, bs, cs, result;
  const auto* a = fetch<K>(wave, instruction, 1, as);
  const auto* b = fetch<K>(wave, instruction, 2, bs);
  const auto* c = fetch<K>(wave, instruction, 3, cs);
  const uint64_t scaled = wave.vcc();
  RoundingScope rounding(wave, K::width);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    auto x = K::decode(a[lane]), y = K::decode(b[lane]), z = K::decode(c[lane]);
    result[lane] = K::encode(bit_of(scaled, lane) ? scaled_fma<K>(x, y, z) : std::fma(x, y, z), false);
  }
  apply_output_modifiers(wave, instruction, result, K::format);
  store<K>(wave, instruction, 0, result);
}

// The quotient's special cases; those of f16 are exact before, so that it has no limits.
template <class K>
typename K::Value fix_up(typename K::Value quotient, typename K::Value denominator, typename K::Value numerator) {
  using V = typename K::Value;
  const V sign = std::signbit(denominator) != std::signbit(numerator) ? V{-1} : V{1};
  const V infinity = std::numeric_limits<V>::infinity();
  if (std::isnan(numerator)) return quiet(numerator);
  if (std::isnan(denominator)) return quiet(denominator);
  if ((numerator == 0 && denominator == 0) || (std::isinf(numerator) && std::isinf(denominator)))
    return -std::numeric_limits<V>::quiet_NaN();
  if (denominator == 0 || std::isinf(numerator)) return sign * infinity;
  if (std::isinf(denominator) || numerator == 0) return sign * 0;
  if constexpr (K::width != 16) {
    if (biased_exponent<K>(numerator) - biased_exponent<K>(denominator) < Limits<K>::underflow) return sign * 0;
  }
  // An iteration that overflowed leaves a NaN.
  return std::isnan(quotient) ? sign * infinity : std::copysign(quotient, sign);
}

template <class K>
struct FixUp {
  using ChoosesNans = void;
  using V = typename K::Value;
  V operator()(V quotient, V denominator, V numerator) const { return fix_up<K>(quotient, denominator, numerator); }
};

}  // namespace

void add_vector_division(Table& table) {
  table["v_div_scale_f32"] = run_scale<F32>;
  table["v_div_scale_f64"] = run_scale<F64>;
  table["v_div_fmas_f32"] = run_fmas<F32>;
  table["v_div_fmas_f64"] = run_fmas<F64>;
  table["v_div_fixup_f32"] = vector<F32, F32, F32, F32>(FixUp<F32>());
  table["v_div_fixup_f64"] = vector<F64, F64, F64, F64>(FixUp<F64>());
  table["v_div_fixup_f16"] = table["v_div_fixup_legacy_f16"] = vector<F16, F16, F16, F16>(FixUp<F16>());
}

}  // namespace kiln::amdgcn_emulator
