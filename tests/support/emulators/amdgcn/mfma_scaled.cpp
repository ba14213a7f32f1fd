// Matrix instructions of CDNA 4 on numbers of 8, 6 and 4 bits: v_mfma_f32_MxNxK_f8f6f4, and v_mfma_scale_…, in which 32
// neighbours along k share a scale.
//
// Which lane has what is in the tables of AMD's Composable Kernel (test/mx_mfma_op), as the ISA guide has it. With g
// for the group of M lanes: of 8 bits a lane has k = 16 g … 16 g + 15 and then the same numbers of the second half of
// k; of 6 and 4 bits it has k = 32 g … 32 g + 31. Lane i + M g has the scale of row i for k = 32 g … 32 g + 31, in the
// byte that op_sel and op_sel_hi number. D is as of all others of M rows. The sum of all products and C is rounded
// once.
#include <cmath>
#include <vector>

#include "kinds.h"
#include "scalar.h"
#include "semantics.h"
#include "small_floats.h"
#include "wave.h"

namespace kiln::amdgcn_emulator {
namespace {

constexpr unsigned kBlock = 32;

struct Shape {
  unsigned m, k;
  unsigned groups() const { return 64 / m; }
};

uint32_t raw(const Wave& wave, const Operand& operand, unsigned lane, unsigned index, unsigned bits) {
  const unsigned at = index * bits;
  const unsigned word = operand.index + at / 32;
  uint64_t both = wave.vgpr[word][lane];
  if (at % 32 + bits > 32) both |= uint64_t{wave.vgpr[word + 1][lane]} << 32;
  return static_cast<uint32_t>(both >> at % 32) & ((1u << bits) - 1);
}

double scale_of(const Wave& wave, const Instruction& instruction, unsigned number, unsigned lane) {
  const Operand& operand = instruction.operands[4 + number];
  const unsigned byte = (instruction.op_sel >> number & 1) + 2 * (instruction.op_sel_hi >> number & 1);
  const uint64_t word = operand.kind == OperandKind::kVgpr ? wave.vgpr[operand.index][lane]
                                                           : uniform_bits(wave, operand, Format::kBits, 32);
  const auto scale = static_cast<int>(word >> (8 * byte) & 0xff);
  return scale == 0xff ? std::nan("") : std::ldexp(1.0, scale - 127);
}

// A as [row][k], or B as [column][k], scaled.
std::vector<double> gather(const Wave& wave, const Instruction& instruction, const Shape& s, unsigned number,
                           bool is_scaled) {
  const unsigned kind = number == 0 ? instruction.broadcast_size : instruction.b_permutation, bits = bits_of_kind(kind);
  std::vector<double> out(size_t{s.m} * s.k);
  for (unsigned lane = 0; lane < 64; ++lane) {
    const unsigned row = lane % s.m, group = lane / s.m;
    for (unsigned j = 0; j < kBlock; ++j) {
      const unsigned k = bits != 8 ? kBlock * group + j : j / 16 * (s.k / 2) + 16 * group + j % 16;
      double value = decode_kind(raw(wave, instruction.operands[1 + number], lane, j, bits), kind);
      if (is_scaled) value *= scale_of(wave, instruction, number, row + s.m * (k / kBlock));
      out[size_t{row} * s.k + k] = value;
    }
  }
  return out;
}

template <unsigned M, unsigned K, bool IsScaled>
void run_f8f6f4(Wave& wave, const Instruction& instruction) {
  const Shape s{M, K};
  const std::vector<double> a = gather(wave, instruction, s, 0, IsScaled);
  const std::vector<double> b = gather(wave, instruction, s, 1, IsScaled);
  const Operand &sums = instruction.operands[3], &results = instruction.operands[0];
  std::vector<uint32_t> done(size_t{M} * M);
  const auto item = [&](unsigned i) { return i % 4 + 4 * (i / (4 * s.groups())); };
  const auto lane = [&](unsigned i, unsigned j) { return j + M * (i / 4 % s.groups()); };
  for (unsigned i = 0; i < M; ++i)
    for (unsigned j = 0; j < M; ++j) {
      const uint64_t before = sums.kind == OperandKind::kVgpr ? wave.vgpr[sums.index + item(i)][lane(i, j)]
                                                              : uniform_bits(wave, sums, Format::kF32, 32);
      double sum = std::bit_cast<float>(static_cast<uint32_t>(before));
      for (unsigned k = 0; k < K; ++k) sum += a[size_t{i} * K + k] * b[size_t{j} * K + k];
      done[size_t{i} * M + j] = std::bit_cast<uint32_t>(static_cast<float>(sum));
    }
  for (unsigned i = 0; i < M; ++i)
    for (unsigned j = 0; j < M; ++j) wave.vgpr[results.index + item(i)][lane(i, j)] = done[size_t{i} * M + j];
}

}  // namespace

void add_mfma_scaled(Table& table) {
  table["v_mfma_f32_16x16x128_f8f6f4"] = run_f8f6f4<16, 128, false>;
  table["v_mfma_f32_32x32x64_f8f6f4"] = run_f8f6f4<32, 64, false>;
  table["v_mfma_scale_f32_16x16x128_f8f6f4"] = run_f8f6f4<16, 128, true>;
  table["v_mfma_scale_f32_32x32x64_f8f6f4"] = run_f8f6f4<32, 64, true>;
}

}  // namespace kiln::amdgcn_emulator
