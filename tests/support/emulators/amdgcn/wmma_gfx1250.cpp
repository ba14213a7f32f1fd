// Matrix instructions of gfx1250: v_wmma_D_16x16xK_AB, and those of 8, 6 and 4 bits in which 32 neighbours along k
// share a scale. Waves have 32 lanes.
//
// Which lane has what is as in AMD's emulator rocjitsu (mma/layout.h of ROCm/rocm-systems, after section 7.12 of the
// CDNA 5 ISA guide), and as Triton lays operands out: row i of A, or column i of B, belongs to the lanes i and i + 16,
// which take blocks of k in turns. A block has 16 bytes; of 16x16x4 two numbers of f32, of 6 and 4 bits with scales 32
// numbers. Row i of D is item i % 8 of lane j + 16 * (i / 8), halves packed. The scales of a row's 128 numbers are the
// four bytes of lane i, or i + 16 where the instruction says so. Products are summed in f32 in the order of k; of 8
// bits and fewer the sum is rounded once.
#include <array>
#include <cmath>

#include "kinds.h"
#include "scalar.h"
#include "semantics.h"
#include "small_floats.h"

namespace kiln::amdgcn_emulator {
namespace {

constexpr unsigned kTile = 16, kScaled = 128, kShareScale = 32;

enum class Number : uint8_t { kF32, kF16, kBf16, kFp8, kBf8, kI8 };

constexpr unsigned bits_of_number(Number number) {
  return number == Number::kF32 ? 32 : number <= Number::kBf16 ? 16 : 8;
}

// Numbers of k that one lane has side by side.
constexpr unsigned block_of(unsigned bits, unsigned depth) { return bits == 32 ? depth / 2 : 128 / bits; }

// So many bits of a lane, at element `index` of an operand.
uint32_t bits_at(const Wave& wave, const Operand& operand, unsigned lane, unsigned index, unsigned bits) {
  const unsigned at = index * bits, word = operand.index + at / 32;
  uint64_t both = wave.vgpr[word][lane];
  if (at % 32 + bits > 32) both |= uint64_t{wave.vgpr[word + 1][lane]} << 32;
  return static_cast<uint32_t>(both >> at % 32 & ((uint64_t{1} << bits) - 1));
}

uint32_t bits_of_k(const Wave& wave, const Operand& operand, unsigned side, unsigned k, unsigned bits, unsigned block) {
  return bits_at(wave, operand, side + kTile * (k / block % 2), k / (2 * block) * block + k % block, bits);
}

template <Number N>
double value_of(const Instruction& instruction, unsigned source, uint32_t bits, bool is_high) {
  const bool is_of_high = is_high && bits_of_number(N) == 16;
  const bool negates = (is_of_high ? instruction.neg_hi : instruction.neg_lo) >> source & 1;
  if constexpr (N == Number::kI8) {
    return negates ? static_cast<int8_t>(bits) : static_cast<uint8_t>(bits);  // neg says that it has a sign
  } else {
    double value = 0;
    if constexpr (N == Number::kF32) value = std::bit_cast<float>(bits);
    if constexpr (N == Number::kF16) value = half_to_float(bits);
    if constexpr (N == Number::kBf16) value = brain_to_float(bits);
    if constexpr (N == Number::kFp8) value = decode_small(bits, kFp8);
    if constexpr (N == Number::kBf8) value = decode_small(bits, kBf8);
    return negates ? -value : value;
  }
}

template <unsigned Depth>
using Matrix = std::array<std::array<double, Depth>, kTile>;  // rows of A, columns of B

template <Number N, unsigned Depth>
Matrix<Depth> operand_of(const Wave& wave, const Instruction& instruction, unsigned source) {
  constexpr unsigned bits = bits_of_number(N), block = block_of(bits, Depth);
  Matrix<Depth> out;
  for (unsigned side = 0; side < kTile; ++side)
    for (unsigned k = 0; k < Depth; ++k)
      out[side][k] = value_of<N>(instruction, source,
                                 bits_of_k(wave, instruction.operands[1 + source], side, k, bits, block), k % 2 == 1);
  return out;
}

enum class Sum : uint8_t { kF32, kF16, kBf16, kI32 };

uint32_t accumulator_bits(const Wave& wave, const Operand& operand, unsigned lane, unsigned item, Sum kind) {
  if (operand.kind == OperandKind::kVgpr)
    return bits_at(wave, operand, lane, item, kind == Sum::kF16 || kind == Sum::kBf16 ? 16 : 32);
  const Format format = kind == Sum::kF16    ? Format::kF16
                        : kind == Sum::kBf16 ? Format::kBf16
                        : kind == Sum::kF32  ? Format::kF32
                                             : Format::kSigned;
  return static_cast<uint32_t>(uniform_bits(wave, operand, format, kind == Sum::kF16 || kind == Sum::kBf16 ? 16 : 32));
}

double accumulator(const Wave& wave, const Instruction& instruction, unsigned lane, unsigned item, Sum kind) {
  const uint32_t bits = accumulator_bits(wave, instruction.operands[3], lane, item, kind);
  if (kind == Sum::kI32) return static_cast<int32_t>(bits);
  double value = kind == Sum::kF16    ? half_to_float(bits)
                 : kind == Sum::kBf16 ? brain_to_float(bits)
                                      : std::bit_cast<float>(bits);
  if (instruction.neg_hi >> 2 & 1) value = std::fabs(value);
  return instruction.neg_lo >> 2 & 1 ? -value : value;
}

uint32_t result_bits(const Instruction& instruction, double value, Sum kind) {
  const auto rounded = static_cast<float>(value);
  switch (kind) {
    case Sum::kF32:
      return std::bit_cast<uint32_t>(rounded);
    case Sum::kF16:
      return float_to_half(rounded);
    case Sum::kBf16:
      return float_to_brain(rounded);
    default:
      return I32::encode(static_cast<int64_t>(value), instruction.clamp);
  }
}

// D = C + A·B; of integers everything is exact in a double.
template <unsigned Depth>
void multiply(Wave& wave, const Instruction& instruction, const Matrix<Depth>& a, const Matrix<Depth>& b, Sum from,
              Sum to, bool rounds_each) {
  std::array<std::array<double, kTile>, kTile> sums;
  const auto lane = [](unsigned i, unsigned j) { return j + kTile * (i / 8); };
  for (unsigned i = 0; i < kTile; ++i)
    for (unsigned j = 0; j < kTile; ++j) {
      double sum = accumulator(wave, instruction, lane(i, j), i % 8, from);
      for (unsigned k = 0; k < Depth; ++k) {
        if (rounds_each)
          sum = std::fma(static_cast<float>(a[i][k]), static_cast<float>(b[j][k]), static_cast<float>(sum));
        else
          sum += a[i][k] * b[j][k];
      }
      sums[i][j] = sum;
    }
  const bool is_half = to == Sum::kF16 || to == Sum::kBf16;
  for (unsigned i = 0; i < kTile; ++i)
    for (unsigned j = 0; j < kTile; ++j) {
      const unsigned item = i % 8, shift = is_half ? 16 * (item % 2) : 0;
      uint32_t& word = wave.vgpr[instruction.operands[0].index + (is_half ? item / 2 : item)][lane(i, j)];
      const uint32_t mask = is_half ? 0xffffu << shift : ~0u;
      word = (word & ~mask) | result_bits(instruction, sums[i][j], to) << shift;
    }
}

template <Number A, Number B, unsigned Depth, Sum From, Sum To = From>
void run_dense(Wave& wave, const Instruction& instruction) {
  multiply<Depth>(wave, instruction, operand_of<A, Depth>(wave, instruction, 0),
                  operand_of<B, Depth>(wave, instruction, 1), From, To, A <= Number::kBf16);
}

double scale_of(const Wave& wave, const Instruction& instruction, unsigned source, unsigned side, unsigned k) {
  const Operand& operand = instruction.operands[4 + source];
  const unsigned lane = side + (instruction.scale_rows >> source & 1 ? kTile : 0);
  const uint64_t word = operand.kind == OperandKind::kVgpr ? wave.vgpr[operand.index][lane]
                                                           : uniform_bits(wave, operand, Format::kBits, 32);
  const auto scale = static_cast<int>(word >> (8 * (k / kShareScale)) & 0xff);
  return scale == 0xff ? std::nan("") : std::ldexp(1.0, scale - 127);
}

Matrix<kScaled> scaled_operand(const Wave& wave, const Instruction& instruction, unsigned source) {
  const unsigned kind = source == 0 ? instruction.a_kind : instruction.b_kind, bits = bits_of_kind(kind);
  const unsigned block = bits == 8 ? 16 : 32;
  Matrix<kScaled> out;
  for (unsigned side = 0; side < kTile; ++side)
    for (unsigned k = 0; k < kScaled; ++k)
      out[side][k] = decode_kind(bits_of_k(wave, instruction.operands[1 + source], side, k, bits, block), kind) *
                     scale_of(wave, instruction, source, side, k);
  return out;
}

void run_scaled(Wave& wave, const Instruction& instruction) {
  multiply<kScaled>(wave, instruction, scaled_operand(wave, instruction, 0), scaled_operand(wave, instruction, 1),
                    Sum::kF32, Sum::kF32, false);
}

template <Number A, Number B>
void add_products_of_bytes(Table& table, const std::string& types) {
  table["v_wmma_f32_16x16x64_" + types] = run_dense<A, B, 64, Sum::kF32>;
  table["v_wmma_f16_16x16x64_" + types] = run_dense<A, B, 64, Sum::kF16>;
  table["v_wmma_f32_16x16x128_" + types] = run_dense<A, B, 128, Sum::kF32>;
  table["v_wmma_f16_16x16x128_" + types] = run_dense<A, B, 128, Sum::kF16>;
}

}  // namespace

void add_wmma_gfx1250(Table& table) {
  using enum Number;
  table["v_wmma_f32_16x16x4_f32"] = run_dense<kF32, kF32, 4, Sum::kF32>;
  table["v_wmma_f32_16x16x32_f16"] = run_dense<kF16, kF16, 32, Sum::kF32>;
  table["v_wmma_f32_16x16x32_bf16"] = run_dense<kBf16, kBf16, 32, Sum::kF32>;
  table["v_wmma_f16_16x16x32_f16"] = run_dense<kF16, kF16, 32, Sum::kF16>;
  table["v_wmma_bf16_16x16x32_bf16"] = run_dense<kBf16, kBf16, 32, Sum::kBf16>;
  table["v_wmma_bf16f32_16x16x32_bf16"] = run_dense<kBf16, kBf16, 32, Sum::kF32, Sum::kBf16>;
  table["v_wmma_i32_16x16x64_iu8"] = run_dense<kI8, kI8, 64, Sum::kI32>;
  add_products_of_bytes<kFp8, kFp8>(table, "fp8_fp8");
  add_products_of_bytes<kFp8, kBf8>(table, "fp8_bf8");
  add_products_of_bytes<kBf8, kFp8>(table, "bf8_fp8");
  add_products_of_bytes<kBf8, kBf8>(table, "bf8_bf8");
  table["v_wmma_scale_f32_16x16x128_f8f6f4"] = run_scaled;
}

}  // namespace kiln::amdgcn_emulator
