// Vector floating-point arithmetic of f32 and f64; what f16 shares with them as well.
#include "float_math.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

bool ieee(const Wave& wave) { return wave.mode & kModeIeee; }

template <class K>
void add_arithmetic(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["v_add_" + type] = vector<K, K, K>([](V a, V b) { return a + b; });
  table["v_sub_" + type] = vector<K, K, K>([](V a, V b) { return a - b; });
  table["v_subrev_" + type] = vector<K, K, K>([](V a, V b) { return b - a; });
  table["v_mul_" + type] = vector<K, K, K>([](V a, V b) { return a * b; });
  constexpr auto fma = [](V a, V b, V c) {
    if constexpr (K::width == 16)
      return half_fma(a, b, c);
    else
      return std::fma(a, b, c);
  };
  table["v_fma_" + type] = table["v_fmaak_" + type] = table["v_fmamk_" + type] = vector<K, K, K, K>(fma);
  table["v_fmac_" + type] = accumulating<K, K, K>(fma);
  constexpr auto mad = [](V a, V b, V c) {
    V product = a * b;
    return product + c;
  };
  table["v_mad_" + type] = table["v_madak_" + type] = table["v_madmk_" + type] = vector<K, K, K, K>(mad);
  table["v_mac_" + type] = accumulating<K, K, K>(mad);
}

template <class K>
void add_extrema(Table& table, const std::string& type) {
  using V = typename K::Value;
  auto low = vector<K, K, K>([](const Wave& w, V a, V b) { return minimum_number(a, b, ieee(w)); });
  auto high = vector<K, K, K>([](const Wave& w, V a, V b) { return maximum_number(a, b, ieee(w)); });
  auto low3 = vector<K, K, K, K>(
      [](const Wave& w, V a, V b, V c) { return minimum_number(minimum_number(a, b, ieee(w)), c, ieee(w)); });
  auto high3 = vector<K, K, K, K>(
      [](const Wave& w, V a, V b, V c) { return maximum_number(maximum_number(a, b, ieee(w)), c, ieee(w)); });
  auto low_high = vector<K, K, K, K>(
      [](const Wave& w, V a, V b, V c) { return maximum_number(minimum_number(a, b, ieee(w)), c, ieee(w)); });
  auto high_low = vector<K, K, K, K>(
      [](const Wave& w, V a, V b, V c) { return minimum_number(maximum_number(a, b, ieee(w)), c, ieee(w)); });
  auto middle = vector<K, K, K, K>([](const Wave& w, V a, V b, V c) { return median(a, b, c, ieee(w)); });
  table["v_min_" + type] = low;
  table["v_max_" + type] = high;
  table["v_min3_" + type] = low3;
  table["v_max3_" + type] = high3;
  table["v_minmax_" + type] = low_high;
  table["v_maxmin_" + type] = high_low;
  table["v_med3_" + type] = table["v_med3_num_" + type] = middle;
  // gfx12's "num" forms are not influenced by signalling NaNs.
  auto low_num = vector<K, K, K>([](V a, V b) { return minimum_number(a, b, false); });
  auto high_num = vector<K, K, K>([](V a, V b) { return maximum_number(a, b, false); });
  table["v_min_num_" + type] = low_num;
  table["v_max_num_" + type] = high_num;
  table["v_min3_num_" + type] =
      vector<K, K, K, K>([](V a, V b, V c) { return minimum_number(minimum_number(a, b, false), c, false); });
  table["v_max3_num_" + type] =
      vector<K, K, K, K>([](V a, V b, V c) { return maximum_number(maximum_number(a, b, false), c, false); });
  table["v_minmax_num_" + type] =
      vector<K, K, K, K>([](V a, V b, V c) { return maximum_number(minimum_number(a, b, false), c, false); });
  table["v_maxmin_num_" + type] =
      vector<K, K, K, K>([](V a, V b, V c) { return minimum_number(maximum_number(a, b, false), c, false); });
  table["v_minimum_" + type] = vector<K, K, K>([](V a, V b) { return minimum(a, b); });
  table["v_maximum_" + type] = vector<K, K, K>([](V a, V b) { return maximum(a, b); });
  table["v_minimum3_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return minimum(minimum(a, b), c); });
  table["v_maximum3_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return maximum(maximum(a, b), c); });
  table["v_minimummaximum_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return maximum(minimum(a, b), c); });
  table["v_maximumminimum_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return minimum(maximum(a, b), c); });
}

template <class K>
void add_rounding(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["v_floor_" + type] = vector<K, K>([](V a) { return std::floor(a); });
  table["v_ceil_" + type] = vector<K, K>([](V a) { return std::ceil(a); });
  table["v_trunc_" + type] = vector<K, K>([](V a) { return std::trunc(a); });
  // Ties to even whatever MODE says.
  table["v_rndne_" + type] = vector<K, K>([](V a) {
    if constexpr (std::is_same_v<V, double>)
      return __builtin_roundeven(a);
    else
      return __builtin_roundevenf(a);
  });
  table["v_frexp_mant_" + type] = vector<K, K>([](V a) { return frexp_mantissa(a); });
}

template <class K, class Functions>
void add_transcendental(Table& table, const std::string& type) {
  table["v_rcp_" + type] = vector<K, K>([](float a) { return Functions::rcp(a); });
  table["v_sqrt_" + type] = vector<K, K>([](float a) { return Functions::sqrt(a); });
  table["v_rsq_" + type] = vector<K, K>([](float a) { return Functions::rsq(a); });
  table["v_exp_" + type] = vector<K, K>([](float a) { return Functions::exp(a); });
  table["v_log_" + type] = vector<K, K>([](float a) { return Functions::log(a); });
}

// Zero times anything is zero.
float legacy_product(float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; }
float legacy_fma(float a, float b, float c) { return a == 0 || b == 0 ? c : std::fma(a, b, c); }

void add_f32(Table& table) {
  add_transcendental<F32, Transcendental>(table, "f32");
  table["v_rcp_iflag_f32"] = table["v_rcp_f32"];
  table["v_exp_legacy_f32"] = table["v_exp_f32"];
  table["v_log_legacy_f32"] = table["v_log_f32"];
  table["v_sin_f32"] = vector<F32, F32>([](float a) { return static_cast<float>(of_turns<false>(flush(a))); });
  table["v_cos_f32"] = vector<F32, F32>([](float a) { return static_cast<float>(of_turns<true>(flush(a))); });
  table["v_fract_f32"] = vector<F32, F32>([](float a) { return fraction(a, 0x1.fffffep-1f); });
  table["v_frexp_exp_i32_f32"] = vector<I32, F32>([](float a) { return frexp_exponent(a); });
  table["v_ldexp_f32"] = vector<F32, F32, I32>([](float a, int32_t b) { return std::ldexp(a, b); });
  table["v_mul_legacy_f32"] = table["v_mul_dx9_zero_f32"] =
      vector<F32, F32, F32>([](float a, float b) { return legacy_product(a, b); });
  table["v_fma_legacy_f32"] = table["v_fma_dx9_zero_f32"] =
      vector<F32, F32, F32, F32>([](float a, float b, float c) { return legacy_fma(a, b, c); });
  table["v_fmac_legacy_f32"] = table["v_fmac_dx9_zero_f32"] =
      accumulating<F32, F32, F32>([](float a, float b, float c) { return legacy_fma(a, b, c); });
  table["v_mullit_f32"] = vector<F32, F32, F32, F32>([](float a, float b, float c) {
    constexpr float largest = std::numeric_limits<float>::max();
    return b > -largest && c > 0 ? legacy_product(a, b) : -largest;
  });
  table["v_mad_legacy_f32"] =
      vector<F32, F32, F32, F32>([](float a, float b, float c) { return legacy_product(a, b) + c; });
  table["v_mac_legacy_f32"] =
      accumulating<F32, F32, F32>([](float a, float b, float c) { return legacy_product(a, b) + c; });
  // v_mad_f32 and v_mac_f32 know no subnormal numbers.
  constexpr auto mad = [](float a, float b, float c) { return flush(flush(flush(a) * flush(b)) + flush(c)); };
  table["v_mad_f32"] = table["v_madak_f32"] = table["v_madmk_f32"] = vector<F32, F32, F32, F32>(mad);
  table["v_mac_f32"] = accumulating<F32, F32, F32>(mad);
}

void add_f64(Table& table) {
  table["v_rcp_f64"] = vector<F64, F64>([](double a) { return coarse(1 / a); });
  table["v_rsq_f64"] = vector<F64, F64>([](double a) { return coarse(1 / std::sqrt(a)); });
  table["v_sqrt_f64"] = vector<F64, F64>([](double a) { return coarse(std::sqrt(a)); });
  table["v_trig_preop_f64"] =
      vector<F64, F64, U32>([](double a, uint32_t segment) { return two_over_pi_segment(a, segment & 31); });
  table["v_fract_f64"] = vector<F64, F64>([](double a) { return fraction(a, 0x1.fffffffffffffp-1); });
  table["v_frexp_exp_i32_f64"] = vector<I32, F64>([](double a) { return frexp_exponent(a); });
  table["v_ldexp_f64"] = vector<F64, F64, I32>([](double a, int32_t b) { return std::ldexp(a, b); });
}

void add_f16(Table& table) {
  add_transcendental<F16, HalfTranscendental>(table, "f16");
  table["v_sin_f16"] = vector<F16, F16>([](float a) { return of_turns<false>(a); });
  table["v_cos_f16"] = vector<F16, F16>([](float a) { return of_turns<true>(a); });
  // As GFX8 had them: only what becomes of the register's other half differs.
  table["v_mad_legacy_f16"] = table["v_mad_f16"];
  table["v_fma_legacy_f16"] = table["v_fma_f16"];
  table["v_fract_f16"] = vector<F16, F16>([](float a) { return fraction(a, 0x1.ffcp-1f); });
  table["v_frexp_exp_i16_f16"] = vector<I16, F16>([](float a) { return frexp_exponent(a); });
  table["v_ldexp_f16"] = vector<F16, F16, I16>([](float a, int16_t b) { return std::ldexp(double{a}, b); });
}

template <class K>
void add_shared(Table& table, const std::string& type) {
  add_arithmetic<K>(table, type);
  add_extrema<K>(table, type);
  add_rounding<K>(table, type);
}

}  // namespace

void add_vector_float(Table& table) {
  add_shared<F32>(table, "f32");
  add_f32(table);
}

void add_vector_double(Table& table) {
  add_shared<F64>(table, "f64");
  add_f64(table);
}

void add_vector_half(Table& table) {
  add_shared<F16>(table, "f16");
  add_f16(table);
}

}  // namespace kiln::amdgcn_emulator
