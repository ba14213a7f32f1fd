// Matrix instructions of RDNA: v_wmma_D_16x16xK_AB, waves of 32 lanes.
//
// Layouts are those of AMD's RDNA3 and RDNA4 ISA guides and matrix instruction calculator. Column j of B and row i of A
// belong to lane % 16.
//   gfx11: a lane holds all of k, and the upper 16 lanes must repeat the lower ones. Row i of D stands in register i /
//   2 of lane j + 16 * (i % 2); a half of D in the half of its register that op_sel names. gfx12: a lane holds k / 8 ==
//   lane / 16 (of 16x16x32: k / 16). Row i of D is value i % 8 of lane j + 16 * (i / 8), halves packed.
#include <cmath>

#include "kinds.h"
#include "scalar.h"
#include "semantics.h"

namespace kiln::amdgcn_emulator {
namespace {

constexpr unsigned kSide = 16;

enum class Element : uint8_t { kF16, kBf16, kFp8, kBf8, kI8, kI4 };

unsigned bits_of(Element element) { return element <= Element::kBf16 ? 16 : element == Element::kI4 ? 4 : 8; }

struct Factor {
  const Operand& operand;
  Element element;
  bool is_signed;
  bool negate_low, negate_high;  // of elements in low and high halves
};

Factor factor_of(const Instruction& instruction, unsigned operand, Element element) {
  const unsigned source = operand - 1;
  bool low = instruction.neg_lo >> source & 1;
  return {instruction.operands[operand], element, low, low, (instruction.neg_hi >> source & 1) != 0};
}

template <class V>
V element_at(const Wave& wave, const Factor& factor, unsigned lane, unsigned index) {
  const unsigned bits = bits_of(factor.element);
  const unsigned at = index * bits;
  uint32_t raw = wave.vgpr[factor.operand.index + at / 32][lane] >> at % 32 & ((1u << bits) - 1);
  if constexpr (std::is_same_v<V, int32_t>) {
    if (!factor.is_signed) return static_cast<int32_t>(raw);
    return static_cast<int32_t>(raw << (32 - bits)) >> (32 - bits);
  } else {
    if (bits == 16 && (at % 32 ? factor.negate_high : factor.negate_low)) raw ^= 0x8000;
    switch (factor.element) {
      case Element::kF16:
        return half_to_float(raw);
      case Element::kBf16:
        return brain_to_float(raw);
      case Element::kFp8:
        return decode_byte(raw, kFp8);
      default:
        return decode_byte(raw, kBf8);
    }
  }
}

// Where k of a row (or column) stands: gfx11's lanes hold all of it, gfx12's two lanes share it. `upper`: which of the
// two equal copies on gfx11.
struct Source {
  unsigned lane, index;
};
Source source_of(const Wave& wave, unsigned side, unsigned k, unsigned depth, unsigned upper) {
  if (wave.processor->generation == Generation::kGfx11) return {side + 16 * upper, k};
  const unsigned half = depth / 2;
  return {side + 16 * (k / half), k % half};
}

struct Place {
  unsigned lane, item;
};
Place place_of(const Wave& wave, unsigned i, unsigned j) {
  if (wave.processor->generation == Generation::kGfx11) return {j + 16 * (i % 2), i / 2};
  return {j + 16 * (i / 8), i % 8};
}

enum class Result16 : uint8_t { kNone, kHalf, kBrain };

// Accumulators and results: f32 and i32 in a register each; of 16 bits gfx11 uses one half of each register, gfx12
// both.
struct Slot {
  unsigned index, shift;
};
Slot slot_of(const Wave& wave, const Instruction& instruction, const Operand& operand, unsigned item, Result16 kind) {
  if (kind == Result16::kNone) return {operand.index + item, 0};
  if (wave.processor->generation == Generation::kGfx11)
    return {operand.index + item, instruction.op_sel & 4 ? 16u : 0u};
  return {operand.index + item / 2, 16 * (item % 2)};
}

template <class V, Result16 R>
V read_accumulator(const Wave& wave, const Instruction& instruction, const Place& place) {
  const Operand& operand = instruction.operands[3];
  uint32_t bits;
  if (operand.kind == OperandKind::kVgpr) {
    Slot slot = slot_of(wave, instruction, operand, place.item, R);
    bits = wave.vgpr[slot.index][place.lane] >> slot.shift;
  } else {
    constexpr Format format = R == Result16::kHalf       ? Format::kF16
                              : R == Result16::kBrain    ? Format::kBf16
                              : std::is_same_v<V, float> ? Format::kF32
                                                         : Format::kSigned;
    bits = static_cast<uint32_t>(uniform_bits(wave, operand, format, R == Result16::kNone ? 32 : 16));
  }
  if constexpr (std::is_same_v<V, int32_t>) {
    return static_cast<int32_t>(bits);
  } else {
    float value = R == Result16::kHalf    ? half_to_float(bits & 0xffff)
                  : R == Result16::kBrain ? brain_to_float(bits & 0xffff)
                                          : std::bit_cast<float>(bits);
    if (instruction.neg_hi & 4) value = std::fabs(value);
    return instruction.neg_lo & 4 ? -value : value;
  }
}

template <class V, Result16 R, class Sum>
void write_result(Wave& wave, const Instruction& instruction, const Place& place, Sum value) {
  Slot slot = slot_of(wave, instruction, instruction.operands[0], place.item, R);
  uint32_t& dword = wave.vgpr[slot.index][place.lane];
  if constexpr (std::is_same_v<V, int32_t>) {
    dword = I32::encode(value, instruction.clamp);
  } else if constexpr (R == Result16::kNone) {
    dword = std::bit_cast<uint32_t>(value);
  } else {
    uint32_t bits = R == Result16::kHalf ? float_to_half(value) : float_to_brain(value);
    dword = (dword & ~(0xffffu << slot.shift)) | bits << slot.shift;
  }
}

template <class V, Element A, Element B, Result16 R = Result16::kNone, unsigned Depth = 16>
void run_wmma(Wave& wave, const Instruction& instruction) {
  if (wave.lanes != 32) return wave.fail("the emulator lacks wmma of waves of 64 lanes");
  const Factor a = factor_of(instruction, 1, A), b = factor_of(instruction, 2, B);
  // Rows of A and columns of B, for even and for odd rows of D: on gfx11 each has its own copy.
  std::array<std::array<std::array<V, Depth>, kSide>, 2> rows, columns;
  for (unsigned copy : {0u, 1u})
    for (unsigned side = 0; side < kSide; ++side)
      for (unsigned k = 0; k < Depth; ++k) {
        Source from = source_of(wave, side, k, Depth, copy);
        rows[copy][side][k] = element_at<V>(wave, a, from.lane, from.index);
        columns[copy][side][k] = element_at<V>(wave, b, from.lane, from.index);
      }
  std::array<std::array<std::conditional_t<std::is_same_v<V, int32_t>, int64_t, float>, kSide>, kSide> sums;
  for (unsigned i = 0; i < kSide; ++i)
    for (unsigned j = 0; j < kSide; ++j) {
      auto& sum = sums[i][j];
      sum = read_accumulator<V, R>(wave, instruction, place_of(wave, i, j));
      const auto &row = rows[i % 2][i], &column = columns[i % 2][j];
      for (unsigned k = 0; k < Depth; ++k)
        if constexpr (std::is_same_v<V, int32_t>)
          sum += int64_t{row[k]} * column[k];
        else
          sum = std::fma(row[k], column[k], sum);
    }
  for (unsigned i = 0; i < kSide; ++i)
    for (unsigned j = 0; j < kSide; ++j) write_result<V, R>(wave, instruction, place_of(wave, i, j), sums[i][j]);
}

}  // namespace

void add_wmma(Table& table) {
  using enum Element;
  table["v_wmma_f32_16x16x16_f16"] = run_wmma<float, kF16, kF16>;
  table["v_wmma_f32_16x16x16_bf16"] = run_wmma<float, kBf16, kBf16>;
  table["v_wmma_f16_16x16x16_f16"] = run_wmma<float, kF16, kF16, Result16::kHalf>;
  table["v_wmma_bf16_16x16x16_bf16"] = run_wmma<float, kBf16, kBf16, Result16::kBrain>;
  table["v_wmma_i32_16x16x16_iu8"] = run_wmma<int32_t, kI8, kI8>;
  table["v_wmma_i32_16x16x16_iu4"] = run_wmma<int32_t, kI4, kI4>;
  table["v_wmma_i32_16x16x32_iu4"] = run_wmma<int32_t, kI4, kI4, Result16::kNone, 32>;
  table["v_wmma_f32_16x16x16_fp8_fp8"] = run_wmma<float, kFp8, kFp8>;
  table["v_wmma_f32_16x16x16_fp8_bf8"] = run_wmma<float, kFp8, kBf8>;
  table["v_wmma_f32_16x16x16_bf8_fp8"] = run_wmma<float, kBf8, kFp8>;
  table["v_wmma_f32_16x16x16_bf8_bf8"] = run_wmma<float, kBf8, kBf8>;
}

}  // namespace kiln::amdgcn_emulator
