// Dot products of the parts of a dword, summed in a third source.
#include <algorithm>

#include "packed.h"

namespace kiln::amdgcn_emulator {
namespace {

// Two halves: the low product is added first.
struct HalfDot {
  float operator()(uint32_t a, uint32_t b, float c) const {
    float sum = std::fma(half_to_float(a & 0xffff), half_to_float(b & 0xffff), c);
    return std::fma(half_to_float(a >> 16), half_to_float(b >> 16), sum);
  }
};
struct BrainDot {
  float operator()(uint32_t a, uint32_t b, float c) const {
    float sum = std::fma(brain_to_float(a & 0xffff), brain_to_float(b & 0xffff), c);
    return std::fma(brain_to_float(a >> 16), brain_to_float(b >> 16), sum);
  }
};

// op_sel swaps and neg_lo, neg_hi negate halves of the two factors.
uint32_t arranged(uint32_t bits, const Instruction& i, unsigned source) {
  uint32_t low = i.op_sel >> source & 1 ? bits >> 16 : bits & 0xffff;
  uint32_t high = i.op_sel_hi >> source & 1 ? bits >> 16 : bits & 0xffff;
  if (i.neg_lo >> source & 1) low ^= 0x8000;
  if (i.neg_hi >> source & 1) high ^= 0x8000;
  return low | high << 16;
}

// D = dot(a, b) + c in f32.
template <class Dot, Format Parts>
void run_float(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  std::array<Row, 2> buffers;
  Lanes<F32> sums, result;
  const uint32_t* a = fetch_packed(wave, instruction, 1, Parts, buffers[0]);
  const uint32_t* b = fetch_packed(wave, instruction, 2, Parts, buffers[1]);
  Instruction plain = instruction;
  plain.op_sel = 0;
  plain.operands[3].negate |= (instruction.neg_lo >> 2 & 1) != 0;
  const uint32_t* c = fetch<F32>(wave, plain, 3, sums);
  for (unsigned lane = 0; lane < wave.lanes; ++lane)
    result[lane] = F32::encode(
        Dot{}(arranged(a[lane], instruction, 0), arranged(b[lane], instruction, 1), F32::decode(c[lane])), false);
  apply_output_modifiers(wave, instruction, result, Format::kF32);
  store<F32>(wave, plain, 0, result);
}

// v_dot2_f16_f16, v_dot2_bf16_bf16: the sum is a half as well.
template <class K, class Dot>
void run_half(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  std::array<Row, 2> buffers;
  Lanes<K> sums, result;
  const uint32_t* a = fetch_packed(wave, instruction, 1, K::format, buffers[0]);
  const uint32_t* b = fetch_packed(wave, instruction, 2, K::format, buffers[1]);
  const uint32_t* c = fetch<K>(wave, instruction, 3, sums);
  for (unsigned lane = 0; lane < wave.lanes; ++lane)
    result[lane] = K::encode(Dot{}(a[lane], b[lane], K::decode(c[lane])), false);
  apply_output_modifiers(wave, instruction, result, K::format);
  store<K>(wave, instruction, 0, result);
}

int64_t part_of(uint32_t bits, unsigned width, unsigned part, bool is_signed) {
  uint32_t value = bits >> (width * part) & ((1u << width) - 1);
  if (!is_signed) return value;
  return static_cast<int32_t>(value << (32 - width)) >> (32 - width);
}

// Integers of `Width` bits. Of the "iu" forms neg_lo tells which factor is signed. Clamp saturates the sum.
template <unsigned Width, bool Signed, bool Mixed>
void run_integer(Wave& wave, const Instruction& instruction) {
  Instruction plain = instruction;
  plain.op_sel = 0;
  begin_vector(wave, instruction);
  Lanes<U32> as, bs, cs, result;
  const uint32_t* a = fetch<U32>(wave, plain, 1, as);
  const uint32_t* b = fetch<U32>(wave, plain, 2, bs);
  const uint32_t* c = fetch<U32>(wave, plain, 3, cs);
  const bool a_signed = Mixed ? instruction.neg_lo & 1 : Signed;
  const bool b_signed = Mixed ? instruction.neg_lo & 2 : Signed;
  constexpr bool sum_signed = Signed || Mixed;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    int64_t sum = sum_signed ? int64_t{static_cast<int32_t>(c[lane])} : int64_t{c[lane]};
    for (unsigned part = 0; part < 32 / Width; ++part)
      sum += part_of(a[lane], Width, part, a_signed) * part_of(b[lane], Width, part, b_signed);
    result[lane] = sum_signed ? I32::encode(sum, instruction.clamp) : U32::encode(sum, instruction.clamp);
  }
  store<U32>(wave, plain, 0, result);
}

// gfx12: four products of 8-bit floats.
template <bool BrainA, bool BrainB>
void run_bytes(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<U32> as, bs;
  Lanes<F32> cs, result;
  const uint32_t* a = fetch<U32>(wave, instruction, 1, as);
  const uint32_t* b = fetch<U32>(wave, instruction, 2, bs);
  const uint32_t* c = fetch<F32>(wave, instruction, 3, cs);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    double sum = F32::decode(c[lane]);
    for (unsigned byte = 0; byte < 4; ++byte)
      sum += decode_small(a[lane] >> (8 * byte) & 0xff, BrainA ? kBf8 : kFp8) *
             decode_small(b[lane] >> (8 * byte) & 0xff, BrainB ? kBf8 : kFp8);
    result[lane] = F32::encode(static_cast<float>(sum), false);
  }
  store<F32>(wave, instruction, 0, result);
}

}  // namespace

void add_vector_dot(Table& table) {
  table["v_dot2_f32_f16"] = table["v_dot2c_f32_f16"] = table["v_dot2acc_f32_f16"] = run_float<HalfDot, Format::kF16>;
  table["v_dot2_f32_bf16"] = table["v_dot2c_f32_bf16"] = table["v_dot2acc_f32_bf16"] =
      run_float<BrainDot, Format::kBf16>;
  table["v_dot2_f16_f16"] = run_half<F16, HalfDot>;
  table["v_dot2_bf16_bf16"] = run_half<BF16, BrainDot>;
  table["v_dot2_i32_i16"] = table["v_dot2c_i32_i16"] = run_integer<16, true, false>;
  table["v_dot2_u32_u16"] = run_integer<16, false, false>;
  table["v_dot4_i32_i8"] = table["v_dot4c_i32_i8"] = run_integer<8, true, false>;
  table["v_dot4_u32_u8"] = run_integer<8, false, false>;
  table["v_dot4_i32_iu8"] = run_integer<8, false, true>;
  table["v_dot8_i32_i4"] = table["v_dot8c_i32_i4"] = run_integer<4, true, false>;
  table["v_dot8_u32_u4"] = run_integer<4, false, false>;
  table["v_dot8_i32_iu4"] = run_integer<4, false, true>;
  table["v_dot4_f32_fp8_fp8"] = run_bytes<false, false>;
  table["v_dot4_f32_fp8_bf8"] = run_bytes<false, true>;
  table["v_dot4_f32_bf8_fp8"] = run_bytes<true, false>;
  table["v_dot4_f32_bf8_bf8"] = run_bytes<true, true>;
}

}  // namespace kiln::amdgcn_emulator
