// Instructions for images: the faces of cubes, and sums of differences of bytes over sliding windows.
#include <algorithm>
#include <cmath>

#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

// The axis along which a direction is longest; z wins over y, and y over x.
enum class Axis : uint8_t { kX, kY, kZ };

Axis major_axis(float x, float y, float z) {
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  if (az >= ax && az >= ay) return Axis::kZ;
  return ay >= ax ? Axis::kY : Axis::kX;
}

float cube_face(float x, float y, float z) {
  switch (major_axis(x, y, z)) {
    case Axis::kZ:
      return z < 0 ? 5 : 4;
    case Axis::kY:
      return y < 0 ? 3 : 2;
    default:
      return x < 0 ? 1 : 0;
  }
}

float cube_s(float x, float y, float z) {
  switch (major_axis(x, y, z)) {
    case Axis::kZ:
      return z < 0 ? -x : x;
    case Axis::kY:
      return x;
    default:
      return x < 0 ? z : -z;
  }
}

float cube_t(float x, float y, float z) {
  if (major_axis(x, y, z) != Axis::kY) return -y;
  return y < 0 ? -z : z;
}

float cube_major(float x, float y, float z) {
  const Axis axis = major_axis(x, y, z);
  return 2 * (axis == Axis::kZ ? z : axis == Axis::kY ? y : x);
}

// Sum of the differences of four bytes; a masked one leaves out where the reference's byte is zero.
template <bool Masked>
uint32_t sum_of_differences(uint32_t window, uint32_t reference) {
  uint32_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    const uint32_t a = window >> shift & 0xff, b = reference >> shift & 0xff;
    if (!Masked || b != 0) sum += a > b ? a - b : b - a;
  }
  return sum;
}

// Four windows, each a byte further than the last, added to four halves.
template <bool Masked>
void run_halves(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<U64> windows, sums, result;
  Lanes<U32> references;
  const uint64_t* window = fetch<U64>(wave, instruction, 1, windows);
  const uint32_t* reference = fetch<U32>(wave, instruction, 2, references);
  const uint64_t* sum = fetch<U64>(wave, instruction, 3, sums);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    result[lane] = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const auto part = static_cast<uint32_t>(window[lane] >> (8 * i));
      uint64_t half = (sum[lane] >> (16 * i) & 0xffff) + sum_of_differences<Masked>(part, reference[lane]);
      if (instruction.clamp) half = std::min<uint64_t>(half, 0xffff);
      result[lane] |= (half & 0xffff) << (16 * i);
    }
  }
  store<U64>(wave, instruction, 0, result);
}

// The same added to four dwords.
void run_dwords(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  Lanes<U64> windows;
  Lanes<U32> references;
  const uint64_t* window = fetch<U64>(wave, instruction, 1, windows);
  const uint32_t* reference = fetch<U32>(wave, instruction, 2, references);
  std::array<Lanes<U32>, 4> results;
  for (unsigned i = 0; i < 4; ++i) {
    Instruction part = instruction;
    if (part.operands[3].kind != OperandKind::kConstant)
      part.operands[3].index = static_cast<uint16_t>(part.operands[3].index + i);
    Lanes<U32> sums;
    const uint32_t* sum = fetch<U32>(wave, part, 3, sums);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const auto shifted = static_cast<uint32_t>(window[lane] >> (8 * i));
      const uint64_t whole = uint64_t{sum[lane]} + sum_of_differences<true>(shifted, reference[lane]);
      results[i][lane] = static_cast<uint32_t>(instruction.clamp ? std::min<uint64_t>(whole, UINT32_MAX) : whole);
    }
  }
  for (unsigned i = 0; i < 4; ++i) {
    Instruction part = instruction;
    part.operands[0].index = static_cast<uint16_t>(part.operands[0].index + i);
    store<U32>(wave, part, 0, results[i]);
  }
}

}  // namespace

void add_vector_media(Table& table) {
  table["v_cubeid_f32"] = vector<F32, F32, F32, F32>([](float x, float y, float z) { return cube_face(x, y, z); });
  table["v_cubesc_f32"] = vector<F32, F32, F32, F32>([](float x, float y, float z) { return cube_s(x, y, z); });
  table["v_cubetc_f32"] = vector<F32, F32, F32, F32>([](float x, float y, float z) { return cube_t(x, y, z); });
  table["v_cubema_f32"] = vector<F32, F32, F32, F32>([](float x, float y, float z) { return cube_major(x, y, z); });
  table["v_qsad_pk_u16_u8"] = run_halves<false>;
  table["v_mqsad_pk_u16_u8"] = run_halves<true>;
  table["v_mqsad_u32_u8"] = run_dwords;
}

}  // namespace kiln::amdgcn_emulator
