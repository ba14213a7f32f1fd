// Packed math (VOP3P): two halves of a register, or two f32 of a pair; op_sel and op_sel_hi choose each source's part
// for the low and the high result, neg_lo and neg_hi negate it. And the mixed fma, whose sources are f16 or f32 one by
// one.
#include <algorithm>

#include "float_math.h"
#include "packed.h"

namespace kiln::amdgcn_emulator {

static uint32_t packed_constant(const Operand& operand, Format format) {
  if (!operand.number_is_float) return static_cast<uint32_t>(operand.integer);
  return static_cast<uint32_t>(constant_bits(operand, format, 16));
}

const uint32_t* fetch_packed(Wave& wave, const Instruction& instruction, unsigned index, Format format, Row& buffer) {
  const Operand& operand = instruction.operands[index];
  if (operand.kind == OperandKind::kVgpr && !instruction.has_dpp) return wave.vgpr[operand.index].data();
  if (operand.kind == OperandKind::kConstant) {
    buffer.fill(packed_constant(operand, format));
    return buffer.data();
  }
  Instruction plain = instruction;
  plain.operands[index].negate = plain.operands[index].absolute = false;
  return fetch<U32>(wave, plain, index, buffer);
}

namespace {

template <class K>
void half_of(Lanes<K>& values, const uint32_t* row, const Instruction& instruction, unsigned source, bool high_result) {
  const uint8_t select = high_result ? instruction.op_sel_hi : instruction.op_sel;
  const uint8_t negate = high_result ? instruction.neg_hi : instruction.neg_lo;
  const unsigned shift = select >> source & 1 ? 16 : 0;
  const uint32_t sign = K::is_float && (negate >> source & 1) ? 0x8000 : 0;
  for (unsigned lane = 0; lane < kMaxLanes; ++lane) values[lane] = (row[lane] >> shift & 0xffff) ^ sign;
}

// Results of two halves; sources in operands first, first + 1, …
template <class K, class F, size_t... I>
void run_halves(Wave& wave, const Instruction& instruction, std::index_sequence<I...>) {
  constexpr unsigned count = sizeof...(I);
  begin_vector(wave, instruction);
  std::array<Row, count> buffers;
  std::array<const uint32_t*, count> rows = {fetch_packed(wave, instruction, 1 + I, K::format, buffers[I])...};
  Lanes<U32> both{};
  F operation{};
  for (bool high : {false, true}) {
    std::array<Lanes<K>, count> parts;
    (half_of<K>(parts[I], rows[I], instruction, I, high), ...);
    Lanes<K> result;
    if constexpr (K::is_float) {
      if (flushes_inputs(wave, 16))
        for (auto& part : parts)
          for (auto& bits : part) bits = flush<K>(bits);
    }
    const unsigned lanes = wave.lanes;
    const bool clamp = instruction.clamp;
    for (unsigned lane = 0; lane < lanes; ++lane)
      result[lane] = K::encode(apply(operation, wave, K::decode(parts[I][lane])...), clamp);
    if (rounds_otherwise<K>(wave)) [[unlikely]]
      for (unsigned lane = 0; lane < lanes; ++lane)
        result[lane] = encode_small(static_cast<double>(apply(operation, wave, K::decode(parts[I][lane])...)), kHalf,
                                    rounding_of(wave, 16));
    if constexpr (K::is_float) apply_output_modifiers(wave, instruction, result, K::format);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) both[lane] |= (result[lane] & 0xffff) << (high ? 16 : 0);
  }
  Instruction whole = instruction;
  whole.op_sel = 0;
  store<U32>(wave, whole, 0, both);
}

template <class K, unsigned Count, class F>
Execute halves(F) {
  return [](Wave& wave, const Instruction& i) { run_halves<K, F>(wave, i, std::make_index_sequence<Count>()); };
}

// Of v_pk_fma_f32 and the like the sources are pairs of registers: op_sel chooses the dword.
const uint32_t* fetch_dword(Wave& wave, const Instruction& instruction, unsigned index, bool high_result, Row& buffer) {
  const uint8_t select = high_result ? instruction.op_sel_hi : instruction.op_sel;
  const uint8_t negate = high_result ? instruction.neg_hi : instruction.neg_lo;
  const unsigned source = index - 1;
  Instruction one = instruction;
  Operand& operand = one.operands[index];
  if (operand.kind != OperandKind::kConstant && operand.dwords == 2)
    operand.index = static_cast<uint16_t>(operand.index + (select >> source & 1));
  operand.dwords = 1;
  operand.negate = negate >> source & 1;
  one.op_sel = 0;
  return fetch<F32>(wave, one, index, buffer);
}

template <class F, size_t... I>
void run_dwords(Wave& wave, const Instruction& instruction, std::index_sequence<I...>) {
  constexpr unsigned count = sizeof...(I);
  begin_vector(wave, instruction);
  std::array<Lanes<F32>, 2> results;
  F operation{};
  for (bool high : {false, true}) {
    std::array<Row, count> buffers;
    std::array<const uint32_t*, count> rows = {fetch_dword(wave, instruction, 1 + I, high, buffers[I])...};
    RoundingScope rounding(wave, 32);
    for (unsigned lane = 0; lane < wave.lanes; ++lane)
      results[high][lane] = F32::encode(operation(F32::decode(rows[I][lane])...), false);
    apply_output_modifiers(wave, instruction, results[high], Format::kF32);
  }
  Instruction one = instruction;
  one.op_sel = 0;
  store<F32>(wave, one, 0, results[0]);
  one.operands[0].index = static_cast<uint16_t>(one.operands[0].index + 1);
  store<F32>(wave, one, 0, results[1]);
}

template <unsigned Count, class F>
Execute dwords(F) {
  return [](Wave& wave, const Instruction& i) { run_dwords<F>(wave, i, std::make_index_sequence<Count>()); };
}

// v_pk_mov_b32: the low result from the first source, the high one from the second.
void move_pair(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  std::array<Lanes<U32>, 2> results;
  for (unsigned source : {0u, 1u}) {
    Instruction one = instruction;
    Operand& operand = one.operands[1 + source];
    if (operand.kind != OperandKind::kConstant && operand.dwords == 2)
      operand.index = static_cast<uint16_t>(operand.index + (instruction.op_sel >> source & 1));
    Row buffer;
    const uint32_t* row = fetch<U32>(wave, one, 1 + source, buffer);
    std::copy_n(row, kMaxLanes, results[source].begin());
  }
  Instruction one = instruction;
  one.op_sel = 0;
  store<U32>(wave, one, 0, results[0]);
  one.operands[0].index = static_cast<uint16_t>(one.operands[0].index + 1);
  store<U32>(wave, one, 0, results[1]);
}

// A source of the mixed fma: f32, or the half that op_sel chooses where op_sel_hi says f16 (of gfx1250: or bf16).
template <class K>
void fetch_mixed(Wave& wave, const Instruction& instruction, unsigned index, std::array<float, kMaxLanes>& values) {
  const unsigned source = index - 1;
  const bool half = instruction.op_sel_hi >> source & 1;
  Row buffer;
  const Operand& operand = instruction.operands[index];
  if (!half) {
    Instruction plain = instruction;
    plain.op_sel = 0;
    const uint32_t* row = fetch<F32>(wave, plain, index, buffer);
    for (unsigned lane = 0; lane < kMaxLanes; ++lane) values[lane] = F32::decode(row[lane]);
    return;
  }
  const uint32_t* row = fetch_packed(wave, instruction, index, K::format, buffer);
  const unsigned shift = instruction.op_sel >> source & 1 ? 16 : 0;
  for (unsigned lane = 0; lane < kMaxLanes; ++lane) {
    uint32_t bits = row[lane] >> shift & 0xffff;
    if (operand.absolute) bits &= 0x7fff;
    if (operand.negate) bits ^= 0x8000;
    values[lane] = K::decode(bits);
  }
}

enum class MixedResult : uint8_t { kFloat, kLow, kHigh };

template <class K, MixedResult R>
void run_mixed(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  std::array<std::array<float, kMaxLanes>, 3> values;
  for (unsigned source = 0; source < 3; ++source) fetch_mixed<K>(wave, instruction, 1 + source, values[source]);
  Lanes<F32> result;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    float sum = std::fma(values[0][lane], values[1][lane], values[2][lane]);
    if (R == MixedResult::kFloat) {
      result[lane] = F32::encode(sum, false);
      continue;
    }
    // f32_to_f16(fma(…)): rounded to f32 and then again, as LLVM's folds of fptrunc take it (llvm-project pull request
    // 219723, by AMD).
    result[lane] = encode_small(sum, K::format == Format::kF16 ? kHalf : kBrain, rounding_of(wave, 16));
  }
  apply_output_modifiers(wave, instruction, result, R == MixedResult::kFloat ? Format::kF32 : K::format);
  const Row& old = wave.vgpr[instruction.operands[0].index];
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    if (R == MixedResult::kLow) result[lane] = (old[lane] & 0xffff0000) | result[lane];
    if (R == MixedResult::kHigh) result[lane] = (old[lane] & 0xffff) | result[lane] << 16;
  }
  Instruction whole = instruction;
  whole.op_sel = 0;
  store<F32>(wave, whole, 0, result);
}

void add_float_halves(Table& table) {
  constexpr auto low = [](const Wave& w, float a, float b) { return minimum_number(a, b, w.mode & kModeIeee); };
  constexpr auto high = [](const Wave& w, float a, float b) { return maximum_number(a, b, w.mode & kModeIeee); };
  table["v_pk_add_f16"] = halves<F16, 2>([](float a, float b) { return a + b; });
  table["v_pk_mul_f16"] = halves<F16, 2>([](float a, float b) { return a * b; });
  table["v_pk_fma_f16"] = halves<F16, 3>([](float a, float b, float c) { return half_fma(a, b, c); });
  table["v_pk_min_f16"] = table["v_pk_min_num_f16"] = halves<F16, 2>(low);
  table["v_pk_max_f16"] = table["v_pk_max_num_f16"] = halves<F16, 2>(high);
  table["v_pk_minimum_f16"] = halves<F16, 2>([](float a, float b) { return minimum(a, b); });
  table["v_pk_maximum_f16"] = halves<F16, 2>([](float a, float b) { return maximum(a, b); });
  table["v_pk_minimum3_f16"] = halves<F16, 3>([](float a, float b, float c) { return minimum(minimum(a, b), c); });
  table["v_pk_maximum3_f16"] = halves<F16, 3>([](float a, float b, float c) { return maximum(maximum(a, b), c); });
  table["v_pk_min3_num_f16"] =
      halves<F16, 3>([](float a, float b, float c) { return minimum_number(minimum_number(a, b, false), c, false); });
  table["v_pk_max3_num_f16"] =
      halves<F16, 3>([](float a, float b, float c) { return maximum_number(maximum_number(a, b, false), c, false); });
  table["v_pk_fmac_f16"] = table["v_pk_fma_f16"];
}

template <class K>
void add_packed_three_way(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["v_pk_min3_" + type] = halves<K, 3>([](V a, V b, V c) { return std::min({a, b, c}); });
  table["v_pk_max3_" + type] = halves<K, 3>([](V a, V b, V c) { return std::max({a, b, c}); });
  table["v_pk_add_min_" + type] =
      halves<K, 3>([](const Wave& w, V a, V b, V c) { return std::min(clamped_sum<K>(w, a, b), c); });
  table["v_pk_add_max_" + type] =
      halves<K, 3>([](const Wave& w, V a, V b, V c) { return std::max(clamped_sum<K>(w, a, b), c); });
}

void add_integer_halves(Table& table) {
  add_packed_three_way<U16>(table, "u16");
  add_packed_three_way<I16>(table, "i16");
  table["v_pk_add_u16"] = halves<U16, 2>([](uint16_t a, uint16_t b) { return a + b; });
  table["v_pk_sub_u16"] = halves<U16, 2>([](uint16_t a, uint16_t b) { return a - b; });
  table["v_pk_add_i16"] = halves<I16, 2>([](int16_t a, int16_t b) { return a + b; });
  table["v_pk_sub_i16"] = halves<I16, 2>([](int16_t a, int16_t b) { return a - b; });
  table["v_pk_mul_lo_u16"] =
      halves<U16, 2>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(uint32_t{a} * b); });
  table["v_pk_mad_u16"] = halves<U16, 3>([](uint16_t a, uint16_t b, uint16_t c) { return int64_t{a} * b + c; });
  table["v_pk_mad_i16"] = halves<I16, 3>([](int16_t a, int16_t b, int16_t c) { return int64_t{a} * b + c; });
  table["v_pk_lshlrev_b16"] =
      halves<U16, 2>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(uint32_t{b} << (a & 15)); });
  table["v_pk_lshrrev_b16"] =
      halves<U16, 2>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(b >> (a & 15)); });
  table["v_pk_ashrrev_i16"] = halves<I16, 2>([](int16_t a, int16_t b) { return static_cast<int16_t>(b >> (a & 15)); });
  table["v_pk_min_u16"] = halves<U16, 2>([](uint16_t a, uint16_t b) { return std::min(a, b); });
  table["v_pk_max_u16"] = halves<U16, 2>([](uint16_t a, uint16_t b) { return std::max(a, b); });
  table["v_pk_min_i16"] = halves<I16, 2>([](int16_t a, int16_t b) { return std::min(a, b); });
  table["v_pk_max_i16"] = halves<I16, 2>([](int16_t a, int16_t b) { return std::max(a, b); });
}

}  // namespace

void add_vector_packed(Table& table) {
  add_float_halves(table);
  add_integer_halves(table);
  table["v_pk_fma_f32"] = dwords<3>([](float a, float b, float c) { return std::fma(a, b, c); });
  table["v_pk_mul_f32"] = dwords<2>([](float a, float b) { return a * b; });
  table["v_pk_add_f32"] = dwords<2>([](float a, float b) { return a + b; });
  table["v_pk_mov_b32"] = move_pair;
  table["v_fma_mix_f32"] = run_mixed<F16, MixedResult::kFloat>;
  table["v_fma_mixlo_f16"] = run_mixed<F16, MixedResult::kLow>;
  table["v_fma_mixhi_f16"] = run_mixed<F16, MixedResult::kHigh>;
  table["v_fma_mix_f32_bf16"] = run_mixed<BF16, MixedResult::kFloat>;
  table["v_fma_mixlo_bf16"] = run_mixed<BF16, MixedResult::kLow>;
  table["v_fma_mixhi_bf16"] = run_mixed<BF16, MixedResult::kHigh>;
}

}  // namespace kiln::amdgcn_emulator
