// Scalar floating-point instructions, which gfx11.5 and gfx12 have.
#include "conversions.h"
#include "float_math.h"
#include "scalar.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

template <class K>
void add_arithmetic(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["s_add_" + type] = scalar<K, K, K>([](V a, V b) { return a + b; });
  table["s_sub_" + type] = scalar<K, K, K>([](V a, V b) { return a - b; });
  table["s_mul_" + type] = scalar<K, K, K>([](V a, V b) { return a * b; });
  auto low = scalar<K, K, K>([](V a, V b) { return minimum_number(a, b, false); });
  auto high = scalar<K, K, K>([](V a, V b) { return maximum_number(a, b, false); });
  table["s_min_" + type] = table["s_min_num_" + type] = low;
  table["s_max_" + type] = table["s_max_num_" + type] = high;
  table["s_minimum_" + type] = scalar<K, K, K>([](V a, V b) { return minimum(a, b); });
  table["s_maximum_" + type] = scalar<K, K, K>([](V a, V b) { return maximum(a, b); });
  table["s_floor_" + type] = scalar<K, K>([](V a) { return std::floor(a); });
  table["s_ceil_" + type] = scalar<K, K>([](V a) { return std::ceil(a); });
  table["s_trunc_" + type] = scalar<K, K>([](V a) { return std::trunc(a); });
  table["s_rndne_" + type] = scalar<K, K>([](V a) { return __builtin_roundevenf(a); });
}

template <class K>
void add_compares(Table& table, const std::string& type) {
  using V = typename K::Value;
  auto add = [&]<class F>(const std::string& name, F operation) {
    table["s_cmp_" + name + "_" + type] = scalar_compare<K, K>(operation);
  };
  add("lt", [](V a, V b) { return a < b; });
  add("eq", [](V a, V b) { return a == b; });
  add("le", [](V a, V b) { return a <= b; });
  add("gt", [](V a, V b) { return a > b; });
  add("lg", [](V a, V b) { return a < b || a > b; });
  add("ge", [](V a, V b) { return a >= b; });
  add("o", [](V a, V b) { return a == a && b == b; });
  add("u", [](V a, V b) { return a != a || b != b; });
  add("nge", [](V a, V b) { return !(a >= b); });
  add("nlg", [](V a, V b) { return !(a < b || a > b); });
  add("ngt", [](V a, V b) { return !(a > b); });
  add("nle", [](V a, V b) { return !(a <= b); });
  add("neq", [](V a, V b) { return a != b; });
  add("nlt", [](V a, V b) { return !(a < b); });
}

// s_fmac D = a * b + D.
void accumulate(Wave& wave, const Instruction& i) {
  float sum = std::fma(read_scalar<F32>(wave, i.operands[1]), read_scalar<F32>(wave, i.operands[2]),
                       read_scalar<F32>(wave, i.operands[0]));
  write_scalar<F32>(wave, i.operands[0], F32::encode(sum, false));
}
void accumulate_half(Wave& wave, const Instruction& i) {
  float sum = half_fma(read_scalar<F16>(wave, i.operands[1]), read_scalar<F16>(wave, i.operands[2]),
                       read_scalar<F16>(wave, i.operands[0]));
  write_scalar<F16>(wave, i.operands[0], F16::encode(sum, false));
}

// gfx12's v_s_exp_f32 and the like: the vector unit's functions on scalar registers, with a vector instruction's
// modifiers.
template <class K, class F>
void run_pseudo_scalar(Wave& wave, const Instruction& i) {
  const Operand& source = i.operands[1];
  float value = read_scalar<K>(wave, source);
  if (source.absolute) value = std::fabs(value);
  if (source.negate) value = -value;
  const auto result = F{}(value);
  const bool made = std::isnan(result) && !std::isnan(value);
  Lanes<K> bits{};
  bits[0] = made ? K::default_nan : K::encode(result, false);
  apply_output_modifiers(wave, i, bits, K::format);
  write_scalar<K>(wave, i.operands[0], bits[0]);
}

template <class K, class Functions>
void add_pseudo_scalar(Table& table, const std::string& type) {
  auto add = [&]<class F>(const std::string& name, F) { table["v_s_" + name + "_" + type] = &run_pseudo_scalar<K, F>; };
  add("rcp", [](float a) { return Functions::rcp(a); });
  add("sqrt", [](float a) { return Functions::sqrt(a); });
  add("rsq", [](float a) { return Functions::rsq(a); });
  add("exp", [](float a) { return Functions::exp(a); });
  add("log", [](float a) { return Functions::log(a); });
}

}  // namespace

void add_scalar_float(Table& table) {
  add_arithmetic<F32>(table, "f32");
  add_arithmetic<F16>(table, "f16");
  add_compares<F32>(table, "f32");
  add_compares<F16>(table, "f16");
  add_pseudo_scalar<F32, Transcendental>(table, "f32");
  add_pseudo_scalar<F16, HalfTranscendental>(table, "f16");
  table["s_fmac_f32"] = accumulate;
  table["s_fmac_f16"] = accumulate_half;
  table["s_fmaak_f32"] = table["s_fmamk_f32"] =
      scalar<F32, F32, F32, F32>([](float a, float b, float c) { return std::fma(a, b, c); });
  table["s_cvt_f32_i32"] = scalar<F32, I32>([](int32_t a) { return static_cast<float>(a); });
  table["s_cvt_f32_u32"] = scalar<F32, U32>([](uint32_t a) { return static_cast<float>(a); });
  table["s_cvt_i32_f32"] = scalar<I32, F32>([](float a) { return to_integer<int32_t>(a); });
  table["s_cvt_u32_f32"] = scalar<U32, F32>([](float a) { return to_integer<uint32_t>(a); });
  table["s_cvt_f16_f32"] = scalar<F16, F32>([](float a) { return a; });
  table["s_cvt_f32_f16"] = scalar<F32, F16>([](float a) { return a; });
  table["s_cvt_hi_f32_f16"] = scalar<F32, U32>([](uint32_t a) { return half_to_float(a >> 16); });
  table["s_cvt_pk_rtz_f16_f32"] = scalar<U32, F32, F32>([](float a, float b) { return pack_truncated(a, b); });
}

}  // namespace kiln::amdgcn_emulator
