// Conversions between the types of vector registers.
#include <algorithm>

#include "conversions.h"
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

template <unsigned Byte>
void add_byte(Table& table) {
  table["v_cvt_f32_ubyte" + std::to_string(Byte)] =
      vector<F32, U32>([](uint32_t a) { return static_cast<float>(a >> (8 * Byte) & 0xff); });
}

void add_integer(Table& table) {
  table["v_cvt_f32_i32"] = vector<F32, I32>([](int32_t a) { return static_cast<float>(a); });
  table["v_cvt_f32_u32"] = vector<F32, U32>([](uint32_t a) { return static_cast<float>(a); });
  table["v_cvt_f64_i32"] = vector<F64, I32>([](int32_t a) { return static_cast<double>(a); });
  table["v_cvt_f64_u32"] = vector<F64, U32>([](uint32_t a) { return static_cast<double>(a); });
  table["v_cvt_f16_i16"] = vector<F16, I16>([](int16_t a) { return static_cast<float>(a); });
  table["v_cvt_f16_u16"] = vector<F16, U16>([](uint16_t a) { return static_cast<float>(a); });
  table["v_cvt_i32_f32"] = vector<I32, F32>([](float a) { return to_integer<int32_t>(a); });
  table["v_cvt_u32_f32"] = vector<U32, F32>([](float a) { return to_integer<uint32_t>(a); });
  table["v_cvt_i32_f64"] = vector<I32, F64>([](double a) { return to_integer<int32_t>(a); });
  table["v_cvt_u32_f64"] = vector<U32, F64>([](double a) { return to_integer<uint32_t>(a); });
  table["v_cvt_i16_f16"] = vector<I16, F16>([](float a) { return to_integer<int16_t>(a); });
  table["v_cvt_u16_f16"] = vector<U16, F16>([](float a) { return to_integer<uint16_t>(a); });
  table["v_cvt_rpi_i32_f32"] = table["v_cvt_nearest_i32_f32"] =
      vector<I32, F32>([](float a) { return to_integer<int32_t>(std::floor(a + 0.5)); });
  table["v_cvt_flr_i32_f32"] = table["v_cvt_floor_i32_f32"] =
      vector<I32, F32>([](float a) { return to_integer<int32_t>(std::floor(a)); });
  table["v_cvt_i32_i16"] = vector<I32, I16>([](int16_t a) { return int32_t{a}; });
  table["v_cvt_u32_u16"] = vector<U32, U16>([](uint16_t a) { return uint32_t{a}; });
  table["v_cvt_off_f32_i4"] =
      vector<F32, U32>([](uint32_t a) { return static_cast<float>(static_cast<int32_t>(a << 28) >> 28) / 16; });
  add_byte<0>(table);
  add_byte<1>(table);
  add_byte<2>(table);
  add_byte<3>(table);
}

void add_float(Table& table) {
  table["v_cvt_f16_f32"] = vector<F16, F32>([](float a) { return a; });
  table["v_cvt_f32_f16"] = vector<F32, F16>([](float a) { return a; });
  table["v_cvt_f32_f64"] = vector<F32, F64>([](double a) { return static_cast<float>(a); });
  table["v_cvt_f64_f32"] = vector<F64, F32>([](float a) { return static_cast<double>(a); });
  table["v_cvt_norm_i16_f16"] = vector<I16, F16>([](float a) { return to_normalised<int16_t>(a); });
  table["v_cvt_norm_u16_f16"] = vector<U16, F16>([](float a) { return to_normalised<uint16_t>(a); });
}

uint32_t insert_byte(float value, uint32_t byte, uint32_t dword) {
  const unsigned shift = 8 * (byte & 3);
  return (dword & ~(0xffu << shift)) | uint32_t{to_integer<uint8_t>(std::nearbyint(value))} << shift;
}

void add_pairs(Table& table) {
  // Truncates, whatever MODE says.
  table["v_cvt_pkrtz_f16_f32"] = table["v_cvt_pk_rtz_f16_f32"] =
      vector<U32, F32, F32>([](float a, float b) { return pack_truncated(a, b); });
  table["v_cvt_pknorm_i16_f32"] = table["v_cvt_pk_norm_i16_f32"] = vector<U32, F32, F32>([](float a, float b) {
    return pack(static_cast<uint16_t>(to_normalised<int16_t>(a)), static_cast<uint16_t>(to_normalised<int16_t>(b)));
  });
  table["v_cvt_pknorm_u16_f32"] = table["v_cvt_pk_norm_u16_f32"] = vector<U32, F32, F32>(
      [](float a, float b) { return pack(to_normalised<uint16_t>(a), to_normalised<uint16_t>(b)); });
  table["v_cvt_pknorm_i16_f16"] = table["v_cvt_pk_norm_i16_f16"] = vector<U32, F16, F16>([](float a, float b) {
    return pack(static_cast<uint16_t>(to_normalised<int16_t>(a)), static_cast<uint16_t>(to_normalised<int16_t>(b)));
  });
  table["v_cvt_pknorm_u16_f16"] = table["v_cvt_pk_norm_u16_f16"] = vector<U32, F16, F16>(
      [](float a, float b) { return pack(to_normalised<uint16_t>(a), to_normalised<uint16_t>(b)); });
  table["v_cvt_pk_i16_f32"] = vector<U32, F32, F32>([](float a, float b) {
    return pack(static_cast<uint16_t>(to_integer<int16_t>(a)), static_cast<uint16_t>(to_integer<int16_t>(b)));
  });
  table["v_cvt_pk_u16_f32"] =
      vector<U32, F32, F32>([](float a, float b) { return pack(to_integer<uint16_t>(a), to_integer<uint16_t>(b)); });
  table["v_cvt_pk_u16_u32"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return pack(std::min(a, 0xffffu), std::min(b, 0xffffu)); });
  table["v_cvt_pk_i16_i32"] = vector<U32, I32, I32>([](int32_t a, int32_t b) {
    return pack(static_cast<uint32_t>(std::clamp(a, -32768, 32767)),
                static_cast<uint32_t>(std::clamp(b, -32768, 32767)));
  });
  table["v_cvt_pk_u8_f32"] =
      vector<U32, F32, U32, U32>([](float a, uint32_t byte, uint32_t c) { return insert_byte(a, byte, c); });
  table["v_sat_pk_u8_i16"] = vector<U16, U32>([](uint32_t a) {
    int low = std::clamp<int>(static_cast<int16_t>(a), 0, 255);
    int high = std::clamp<int>(static_cast<int16_t>(a >> 16), 0, 255);
    return static_cast<uint16_t>(low | high << 8);
  });
  table["v_cvt_pk_f16_f32"] =
      vector<U32, F32, F32>([](float a, float b) { return float_to_half(a) | float_to_half(b) << 16; });
  table["v_cvt_pk_bf16_f32"] =
      vector<U32, F32, F32>([](float a, float b) { return float_to_brain(a) | float_to_brain(b) << 16; });
  table["v_pack_b32_f16"] = vector<U32, U16, U16>([](uint16_t a, uint16_t b) { return pack(a, b); });
}

// 8-bit floats: FNUZ on gfx942, OCP's formats on others. The selected byte or half of the register stands in op_sel
// (or in SDWA's select, which fetching applies).
const SmallFormat& format_of(const Wave& wave, bool brain) {
  if (wave.processor->fnuz) return brain ? kBf8Fnuz : kFp8Fnuz;
  return brain ? kBf8 : kFp8;
}

template <bool Brain, unsigned Count>
void from_bytes(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<U32> sources;
  const uint32_t* source = fetch<U32>(wave, instruction, 1, sources);
  const SmallFormat& format = format_of(wave, Brain);
  // VOP3: op_sel[0:1] is the byte, or op_sel[0] the half.
  unsigned shift = Count == 2 ? (instruction.op_sel & 1) * 16 : 8 * (instruction.op_sel & 3);
  for (unsigned value = 0; value < Count; ++value) {
    Lanes<F32> result;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      double decoded = decode_small(source[lane] >> (shift + 8 * value) & 0xff, format);
      result[lane] = F32::encode(static_cast<float>(decoded), false);
    }
    Instruction placed = instruction;
    placed.has_sdwa = false;
    placed.operands[0].index = static_cast<uint16_t>(placed.operands[0].index + value);
    store<F32>(wave, placed, 0, result);
  }
}

// Two numbers to one half of the register; the other half stays.
template <bool Brain>
void to_bytes(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<F32> as, bs;
  const uint32_t* a = fetch<F32>(wave, instruction, 1, as);
  const uint32_t* b = fetch<F32>(wave, instruction, 2, bs);
  const SmallFormat& format = format_of(wave, Brain);
  const bool saturate = wave.mode & kModeOverflow16;
  Lanes<U32> result;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    uint32_t low = encode_small(F32::decode(a[lane]), format, Rounding::kNearestEven, saturate);
    uint32_t high = encode_small(F32::decode(b[lane]), format, Rounding::kNearestEven, saturate);
    uint32_t old = wave.vgpr[instruction.operands[0].index][lane];
    uint32_t both = low | high << 8;
    result[lane] = instruction.op_sel >> 2 & 1 ? (old & 0xffff) | both << 16 : (old & 0xffff0000) | both;
  }
  store<U32>(wave, instruction, 0, result);
}

// One number, rounded by the noise in the second source, to the byte that op_sel[2:3] names.
template <bool Brain>
void to_byte_stochastic(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<F32> as;
  Lanes<U32> noises, result;
  const uint32_t* a = fetch<F32>(wave, instruction, 1, as);
  const uint32_t* noise = fetch<U32>(wave, instruction, 2, noises);
  const bool saturate = wave.mode & kModeOverflow16;
  const unsigned shift = 8 * (instruction.op_sel >> 2 & 3);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    uint32_t byte = encode_stochastic(F32::decode(a[lane]), format_of(wave, Brain), noise[lane], saturate);
    uint32_t old = wave.vgpr[instruction.operands[0].index][lane];
    result[lane] = (old & ~(0xffu << shift)) | byte << shift;
  }
  store<U32>(wave, instruction, 0, result);
}

// One number rounded to a byte of the destination, whose others stay.
void accumulate_byte(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<F32> values;
  Lanes<U32> places, result;
  const uint32_t* value = fetch<F32>(wave, instruction, 1, values);
  const uint32_t* place = fetch<U32>(wave, instruction, 2, places);
  const Row& old = wave.vgpr[instruction.operands[0].index];
  for (unsigned lane = 0; lane < wave.lanes; ++lane)
    result[lane] = insert_byte(F32::decode(value[lane]), place[lane], old[lane]);
  store<U32>(wave, instruction, 0, result);
}

void add_bytes(Table& table) {
  table["v_cvt_pkaccum_u8_f32"] = accumulate_byte;
  table["v_cvt_f32_fp8"] = from_bytes<false, 1>;
  table["v_cvt_f32_bf8"] = from_bytes<true, 1>;
  table["v_cvt_pk_f32_fp8"] = from_bytes<false, 2>;
  table["v_cvt_pk_f32_bf8"] = from_bytes<true, 2>;
  table["v_cvt_pk_fp8_f32"] = to_bytes<false>;
  table["v_cvt_pk_bf8_f32"] = to_bytes<true>;
  table["v_cvt_sr_fp8_f32"] = to_byte_stochastic<false>;
  table["v_cvt_sr_bf8_f32"] = to_byte_stochastic<true>;
}

}  // namespace

void add_vector_convert(Table& table) {
  add_integer(table);
  add_float(table);
  add_pairs(table);
  add_bytes(table);
}

}  // namespace kiln::amdgcn_emulator
