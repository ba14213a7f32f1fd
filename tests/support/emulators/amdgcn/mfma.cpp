// Matrix instructions of CDNA: v_mfma_D_MxNxK[_BLOCKSb]_AB, every dense shape, and v_smfmac with a sparse A.
//
// Layouts are those of AMD's "CDNA3 Instruction Set Architecture", chapter on matrix arithmetic, and of AMD's matrix
// instruction calculator. With B blocks, and L values of k in each lane's registers:
//   A[b][i][k]: value k % L of lane i + M * (b + B * (k / L)), B[b][k][j] likewise with j for i
//   D[b][i][j]: H rows lie in consecutive registers (4; 1 of f64); blocks_wide = ceil(64 / (N * M / H)) blocks and
//   rows_wide = 64 / blocks_wide / N groups of rows lie side by side in the lanes, the rest in further registers.
// A sparse A has two of each four values of k, one behind the other; two bits each of a third source say which, and the
// destination is the sum as well ("4:2 structural sparsity" in the same guide).
// EXEC does not matter. The products of one element are summed in the order of k.
#include <cmath>
#include <map>
#include <mutex>

#include "kinds.h"
#include "scalar.h"
#include "semantics.h"

namespace kiln::amdgcn_emulator {
namespace {

constexpr unsigned kWave = 64;

enum class Element : uint8_t { kF32, kXf32, kF16, kBf16, kFp8, kBf8, kI8, kF64 };

struct Shape {
  unsigned m = 0, n = 0, k = 0, blocks = 0;
  unsigned k_per_lane = 0;
  unsigned rows_together = 4;
};

unsigned bits_of(Element element) {
  switch (element) {
    case Element::kF64:
      return 64;
    case Element::kF32:
    case Element::kXf32:
      return 32;
    case Element::kF16:
    case Element::kBf16:
      return 16;
    default:
      return 8;
  }
}

// "v_mfma_f32_32x32x8_f16" → 32, 32, 8; the size of B's registers tells the rest.
Shape shape_of(const Instruction& instruction, Element element) {
  const std::string& name = instruction.name->mnemonic;
  size_t at = name.find('_', name.find('_', 2) + 1) + 1;
  Shape shape;
  for (unsigned* side : {&shape.m, &shape.n, &shape.k}) {
    while (at < name.size() && name[at] >= '0' && name[at] <= '9')
      *side = *side * 10 + static_cast<unsigned>(name[at++] - '0');
    ++at;
  }
  shape.k_per_lane = instruction.operands[2].dwords * 32 / bits_of(element);
  shape.blocks = kWave * shape.k_per_lane / (shape.m * shape.k);
  if (element == Element::kF64) shape.rows_together = 1;
  return shape;
}

// Where D[b][i][j] stands.
struct Place {
  unsigned item;
  unsigned lane;
};

Place place_of(const Shape& s, unsigned b, unsigned i, unsigned j) {
  const unsigned h = s.rows_together;
  const unsigned area = s.n * s.m / h;
  const unsigned blocks_wide = (kWave + area - 1) / area;
  const unsigned rows_wide = kWave / blocks_wide / s.n;
  const unsigned groups = s.m / (h * rows_wide);
  return {i % h + h * (i / (h * rows_wide) % groups + groups * (b / blocks_wide)),
          j + s.n * (i / h % rows_wide + rows_wide * (b % blocks_wide))};
}

// All places of a shape, in the order of blocks, rows and columns: computed once.
const std::vector<Place>& places_of(const Shape& s) {
  static std::mutex mutex;
  static std::map<std::array<unsigned, 4>, std::vector<Place>> known;
  const std::lock_guard lock(mutex);
  std::vector<Place>& places = known[{s.m, s.n, s.blocks, s.rows_together}];
  if (!places.empty()) return places;
  for (unsigned b = 0; b < s.blocks; ++b)
    for (unsigned i = 0; i < s.m; ++i)
      for (unsigned j = 0; j < s.n; ++j) places.push_back(place_of(s, b, i, j));
  return places;
}

// f32 with a mantissa of 10 bits, to nearest even.
float to_xf32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return value;
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff});
}

// CDNA2 takes subnormal halves for zero; CDNA3 does not.
uint32_t flushed_half(uint32_t bits, uint32_t exponent, bool flushes) {
  return flushes && !(bits & exponent) ? bits & 0x8000 : bits;
}

float small_to_float(const Wave& wave, uint32_t bits, Element element) {
  const bool flushes = !wave.processor->gfx940;
  switch (element) {
    case Element::kF32:
      return std::bit_cast<float>(bits);
    case Element::kXf32:
      return to_xf32(std::bit_cast<float>(bits));
    case Element::kF16:
      return half_to_float(flushed_half(bits, 0x7c00, flushes));
    case Element::kBf16:
      return brain_to_float(flushed_half(bits, 0x7f80, flushes));
    case Element::kFp8:
      return decode_byte(bits, wave.processor->fnuz ? kFp8Fnuz : kFp8);
    default:
      return decode_byte(bits, wave.processor->fnuz ? kBf8Fnuz : kBf8);
  }
}

// The lane whose B a lane takes.
unsigned permuted_lane(unsigned lane, unsigned pattern) {
  switch (pattern) {
    case 1:
      return lane % 32;
    case 2:
      return lane % 32 + 32;
    case 3:
      return (lane + 16) % 64;
    case 4:
    case 5:
    case 6:
    case 7:
      return lane % 16 + 16 * (pattern - 4);
    default:
      return lane;
  }
}

uint64_t raw_value(const Wave& wave, const Operand& operand, unsigned lane, unsigned index, unsigned bits) {
  unsigned at = index * bits;
  const auto& registers = wave.vgpr;
  uint32_t low = registers[operand.index + at / 32][lane];
  if (bits == 64) return low | uint64_t{registers[operand.index + at / 32 + 1][lane]} << 32;
  return low >> at % 32 & (bits == 32 ? ~uint32_t{0} : (1u << bits) - 1);
}

template <class V>
V value_of(const Wave& wave, uint64_t raw, Element element) {
  if constexpr (std::is_same_v<V, double>)
    return std::bit_cast<double>(raw);
  else if constexpr (std::is_same_v<V, int32_t>)
    return static_cast<int8_t>(raw);
  else
    return small_to_float(wave, static_cast<uint32_t>(raw), element);
}

// One factor as [block][k][row or column], so that a row of D is computed along contiguous values.
template <class V>
std::vector<V> gather(const Wave& wave, const Instruction& instruction, const Shape& s, unsigned operand,
                      Element element) {
  const bool is_a = operand == 1;
  const unsigned side = is_a ? s.m : s.n;
  // f64 has negations in the place of B's permutation.
  const bool is_f64 = std::is_same_v<V, double>;
  const bool negate = is_f64 && (instruction.neg_lo >> (operand - 1) & 1);
  const unsigned pattern = is_a || is_f64 ? 0 : instruction.b_permutation;
  std::vector<V> values(size_t{s.blocks} * s.k * side);
  for (unsigned b = 0; b < s.blocks; ++b)
    for (unsigned k = 0; k < s.k; ++k) {
      // A's blocks in groups of 2^cbsz: one of them serves all.
      unsigned group = (1u << instruction.broadcast_size) - 1;
      unsigned block = is_a && instruction.broadcast_size ? (b & ~group) + (instruction.broadcast_block & group) : b;
      for (unsigned i = 0; i < side; ++i) {
        unsigned lane = permuted_lane(i + side * (block + s.blocks * (k / s.k_per_lane)), pattern);
        uint64_t raw = raw_value(wave, instruction.operands[operand], lane, k % s.k_per_lane, bits_of(element));
        V value = value_of<V>(wave, raw, element);
        values[(size_t{b} * s.k + k) * side + i] = negate ? -value : value;
      }
    }
  return values;
}

// The sparse A in the form of a dense one. The bits that say where its values belong: of 16-bit values one of four
// bytes, of 8-bit ones one of two halves of the third source, which abid chooses where cbsz is 0.
template <class V>
std::vector<V> gather_sparse(const Wave& wave, const Instruction& instruction, const Shape& s, Element element) {
  const unsigned values_per_lane = s.k_per_lane / 2, index_bits = 2 * values_per_lane;
  const unsigned set = instruction.broadcast_size == 0 ? instruction.broadcast_block % (32 / index_bits) : 0;
  std::vector<V> values(size_t{s.k} * s.m);
  for (unsigned lane = 0; lane < kWave; ++lane) {
    const uint32_t places = wave.vgpr[instruction.operands[3].index][lane] >> (set * index_bits);
    for (unsigned value = 0; value < values_per_lane; ++value) {
      const unsigned k = lane / s.m * s.k_per_lane + value / 2 * 4 + (places >> (2 * value) & 3);
      uint64_t raw = raw_value(wave, instruction.operands[1], lane, value, bits_of(element));
      values[size_t{k} * s.m + lane % s.m] += value_of<V>(wave, raw, element);
    }
  }
  return values;
}

template <class V>
V multiply_add(V a, V b, V c) {
  if constexpr (std::is_same_v<V, int32_t>)
    return static_cast<int32_t>(static_cast<uint32_t>(c) + static_cast<uint32_t>(a * b));
  else
    return std::fma(a, b, c);
}

template <class V>
using RegisterBits = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;

template <class V>
V accumulator(const Wave& wave, const Instruction& instruction, const Operand& operand, const Place& place) {
  constexpr unsigned bits = sizeof(V) * 8;
  constexpr Format format = std::is_same_v<V, double>    ? Format::kF64
                            : std::is_same_v<V, int32_t> ? Format::kSigned
                                                         : Format::kF32;
  uint64_t raw = operand.kind == OperandKind::kVgpr ? raw_value(wave, operand, place.lane, place.item, bits)
                                                    : uniform_bits(wave, operand, format, bits);
  V value = std::bit_cast<V>(static_cast<RegisterBits<V>>(raw));
  return std::is_same_v<V, double> && instruction.neg_lo & 4 ? -value : value;
}

template <class V>
void scatter(Wave& wave, const Operand& destination, const Place& place, V value) {
  auto bits = std::bit_cast<RegisterBits<V>>(value);
  constexpr unsigned dwords = sizeof(V) / 4;
  for (unsigned dword = 0; dword < dwords; ++dword)
    wave.vgpr[destination.index + place.item * dwords + dword][place.lane] =
        static_cast<uint32_t>(static_cast<uint64_t>(bits) >> (32 * dword));
}

template <class V, Element A, Element B, bool Sparse = false>
void run_mfma(Wave& wave, const Instruction& instruction) {
  const Shape s = shape_of(instruction, A);
  const std::vector<V> a = Sparse ? gather_sparse<V>(wave, instruction, s, A) : gather<V>(wave, instruction, s, 1, A);
  const Operand& sum = instruction.operands[Sparse ? 0 : 3];
  const std::vector<V> b = gather<V>(wave, instruction, s, 2, B);
  const std::vector<Place>& places = places_of(s);
  std::vector<V> d(places.size());
  for (size_t at = 0; at < d.size(); ++at) d[at] = accumulator<V>(wave, instruction, sum, places[at]);
  for (unsigned block = 0; block < s.blocks; ++block)
    for (unsigned i = 0; i < s.m; ++i) {
      V* row = &d[(size_t{block} * s.m + i) * s.n];
      for (unsigned k = 0; k < s.k; ++k) {
        const V factor = a[(size_t{block} * s.k + k) * s.m + i];
        const V* column = &b[(size_t{block} * s.k + k) * s.n];
        for (unsigned j = 0; j < s.n; ++j) row[j] = multiply_add(factor, column[j], row[j]);
      }
    }
  for (size_t at = 0; at < d.size(); ++at) scatter(wave, instruction.operands[0], places[at], d[at]);
}

void add(Table& table, std::initializer_list<const char*> names, Execute execute) {
  for (std::string name : names) table["v_mfma_" + name] = execute;
}

void add_sparse(Table& table) {
  using enum Element;
  const auto add_shapes = [&](std::initializer_list<const char*> names, Execute execute) {
    for (std::string name : names) table["v_smfmac_" + name] = execute;
  };
  add_shapes({"f32_16x16x32_f16", "f32_32x32x16_f16"}, run_mfma<float, kF16, kF16, true>);
  add_shapes({"f32_16x16x32_bf16", "f32_32x32x16_bf16"}, run_mfma<float, kBf16, kBf16, true>);
  add_shapes({"i32_16x16x64_i8", "i32_32x32x32_i8"}, run_mfma<int32_t, kI8, kI8, true>);
  add_shapes({"f32_16x16x64_fp8_fp8", "f32_32x32x32_fp8_fp8"}, run_mfma<float, kFp8, kFp8, true>);
  add_shapes({"f32_16x16x64_fp8_bf8", "f32_32x32x32_fp8_bf8"}, run_mfma<float, kFp8, kBf8, true>);
  add_shapes({"f32_16x16x64_bf8_fp8", "f32_32x32x32_bf8_fp8"}, run_mfma<float, kBf8, kFp8, true>);
  add_shapes({"f32_16x16x64_bf8_bf8", "f32_32x32x32_bf8_bf8"}, run_mfma<float, kBf8, kBf8, true>);
}

}  // namespace

// CDNA3 spells the blocks and separates the type; CDNA2 does neither.
void add_mfma(Table& table) {
  using enum Element;
  add(table,
      {"f32_32x32x1_2b_f32", "f32_16x16x1_4b_f32", "f32_4x4x1_16b_f32", "f32_32x32x2_f32", "f32_16x16x4_f32",
       "f32_32x32x1f32", "f32_16x16x1f32", "f32_4x4x1f32", "f32_32x32x2f32", "f32_16x16x4f32"},
      run_mfma<float, kF32, kF32>);
  add(table,
      {"f32_32x32x4_2b_f16", "f32_16x16x4_4b_f16", "f32_4x4x4_16b_f16", "f32_32x32x8_f16", "f32_16x16x16_f16",
       "f32_32x32x4f16", "f32_16x16x4f16", "f32_4x4x4f16", "f32_32x32x8f16", "f32_16x16x16f16", "f32_16x16x32_f16",
       "f32_32x32x16_f16"},
      run_mfma<float, kF16, kF16>);
  add(table,
      {"f32_32x32x4_2b_bf16", "f32_16x16x4_4b_bf16", "f32_4x4x4_16b_bf16", "f32_32x32x8_bf16", "f32_16x16x16_bf16",
       "f32_32x32x4bf16_1k", "f32_16x16x4bf16_1k", "f32_4x4x4bf16_1k", "f32_32x32x8bf16_1k", "f32_16x16x16bf16_1k",
       "f32_16x16x32_bf16", "f32_32x32x16_bf16", "f32_32x32x2bf16", "f32_16x16x2bf16", "f32_4x4x2bf16",
       "f32_32x32x4bf16", "f32_16x16x8bf16"},
      run_mfma<float, kBf16, kBf16>);
  add(table,
      {"i32_32x32x4_2b_i8", "i32_16x16x4_4b_i8", "i32_4x4x4_16b_i8", "i32_32x32x16_i8", "i32_16x16x32_i8",
       "i32_16x16x64_i8", "i32_32x32x32_i8", "i32_32x32x4i8", "i32_16x16x4i8", "i32_4x4x4i8", "i32_32x32x8i8",
       "i32_16x16x16i8", "i32_32x32x16i8", "i32_16x16x32i8"},
      run_mfma<int32_t, kI8, kI8>);
  add(table, {"f32_16x16x8_xf32", "f32_32x32x4_xf32", "f32_16x16x8xf32", "f32_32x32x4xf32"},
      run_mfma<float, kXf32, kXf32>);
  add(table, {"f64_16x16x4_f64", "f64_4x4x4_4b_f64", "f64_16x16x4f64", "f64_4x4x4f64"}, run_mfma<double, kF64, kF64>);
  add(table, {"f32_16x16x32_fp8_fp8", "f32_32x32x16_fp8_fp8"}, run_mfma<float, kFp8, kFp8>);
  add(table, {"f32_16x16x32_fp8_bf8", "f32_32x32x16_fp8_bf8"}, run_mfma<float, kFp8, kBf8>);
  add(table, {"f32_16x16x32_bf8_fp8", "f32_32x32x16_bf8_fp8"}, run_mfma<float, kBf8, kFp8>);
  add(table, {"f32_16x16x32_bf8_bf8", "f32_32x32x16_bf8_bf8"}, run_mfma<float, kBf8, kBf8>);
  add_sparse(table);
}

}  // namespace kiln::amdgcn_emulator
