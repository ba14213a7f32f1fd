// Matrix instructions against products computed here, with the layouts of AMD's published formulas.
//
// MFMA (AMD's CDNA3 ISA guide, dense matrix layouts, and the matrix instruction calculator), with L values of k a lane:
//   A[i][k] of block b: value k % L of lane i + M * (b + B * (k / L)), B[k][j] likewise with j
//   D[i][j] of block b, 32 and 16 rows: see `place` below, which states each shape on its own.
#include <cmath>
#include <random>

#include "lanes.h"
#include "small_floats.h"

namespace kiln::amdgcn_emulator {
namespace {

struct Shape {
  const char* processor;
  const char* name;
  unsigned m, n, k, blocks;
  unsigned k_per_lane;
  unsigned element_bits;
};

// Register and lane of D[i][j] of block b, shape by shape.
struct Place {
  unsigned item, lane;
};
Place place(const Shape& s, unsigned b, unsigned i, unsigned j) {
  const bool f64 = s.element_bits == 64;
  if (s.m == 32) return {16 * b + 4 * (i / 8) + i % 4, j + 32 * (i / 4 % 2)};
  if (s.m == 16) return f64 ? Place{i / 4, j + 16 * (i % 4)} : Place{4 * b + i % 4, j + 16 * (i / 4)};
  return f64 ? Place{0, j + 4 * i + 16 * b} : Place{i, j + 4 * b};
}

using Registers = std::vector<std::vector<uint32_t>>;  // of each register, of each lane

void set_bits(Registers& registers, unsigned lane, unsigned index, unsigned bits, uint64_t value) {
  unsigned at = index * bits;
  for (unsigned done = 0; done < bits; done += 32) {
    uint32_t mask = bits >= 32 ? ~0u : ((1u << bits) - 1) << at % 32;
    uint32_t& dword = registers[at / 32 + done / 32][lane];
    dword = (dword & ~mask) | (static_cast<uint32_t>(value >> done) << at % 32 & mask);
  }
}
uint64_t get_bits(const Registers& registers, unsigned lane, unsigned index, unsigned bits) {
  unsigned at = index * bits;
  uint64_t value = registers[at / 32][lane] >> at % 32;
  if (bits == 64) return value | uint64_t{registers[at / 32 + 1][lane]} << 32;
  return bits == 32 ? value : value & ((1u << bits) - 1);
}

Registers registers_of(unsigned count) { return Registers(count, std::vector<uint32_t>(64)); }

// Runs one matrix instruction over registers a, b and c; `operands` writes them ("v[40:43]" and so on) after the loads.
// Input registers lie in memory row by row of 64 lanes.
Registers run_matrix(const std::string& processor, const std::string& instruction, const Registers& a,
                     const Registers& b, const Registers& c, unsigned results, bool accumulators) {
  std::vector<uint32_t> memory;
  for (const Registers* registers : {&a, &b, &c})
    for (const auto& row : *registers) memory.insert(memory.end(), row.begin(), row.end());
  std::vector<uint32_t> out(results * 64);
  const unsigned shift = 2;
  std::string text = "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v0, " +
                     std::to_string(shift) + ", v0\n";
  auto advance = [&](const std::string& pair, const std::string& next) {
    text += "s_add_u32 " + pair + ", " + pair + ", 0x100\ns_addc_u32 " + next + ", " + next + ", 0\n";
  };
  auto load = [&](unsigned first, size_t count, bool to_accumulator) {
    for (size_t i = 0; i < count; ++i) {
      std::string target = std::to_string(first + i);
      text += "global_load_dword v" + (to_accumulator ? "62" : target) + ", v0, s[6:7]\n";
      if (to_accumulator) text += "v_accvgpr_write_b32 a" + target + ", v62\n";
      advance("s6", "s7");
    }
  };
  load(2, a.size(), false);
  load(10, b.size(), false);
  load(accumulators ? 0 : 18, c.size(), accumulators);
  text += instruction + "\n";
  for (unsigned i = 0; i < results; ++i) {
    std::string source = std::to_string((accumulators ? 0 : 18) + i);
    if (accumulators) text += "v_accvgpr_read_b32 v62, a" + source + "\n";
    text += "global_store_dword v0, v" + (accumulators ? "62" : source) + ", s[4:5]\n";
    advance("s4", "s5");
  }
  CodeObject object = assemble(processor, text);
  std::vector<MemoryRange> ranges = {range_of(out), range_of(memory, false)};
  Arguments arguments;
  arguments.add(out.data()).add(memory.data());
  Launch launch;
  launch.threads = lanes_of(processor);
  launch.arguments = arguments.bytes();
  launch.memory = ranges;
  Result<Statistics> result = run(object, "kernel", launch);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  Registers registers;
  for (unsigned i = 0; i < results; ++i) registers.emplace_back(out.begin() + i * 64, out.begin() + (i + 1) * 64);
  return registers;
}

// Small whole numbers are exact in every format, and so are their sums.
int number(std::mt19937& random) { return static_cast<int>(random() % 9) - 4; }

uint64_t encoded(const std::string& name, unsigned bits, int value, bool second) {
  if (name.find("f64_") == 7) return std::bit_cast<uint64_t>(static_cast<double>(value));
  if (bits == 32) return bits_of(static_cast<float>(value));
  if (name.starts_with("v_mfma_i32")) return static_cast<uint8_t>(value);
  if (name.find("bf16") != std::string::npos) return bits_of(static_cast<float>(value)) >> 16;
  if (bits == 16) return float_to_half(static_cast<float>(value));
  size_t type = name.find("p8") == std::string::npos && !second ? 0 : name.rfind('_');
  bool brain = second ? name.substr(type + 1, 3) == "bf8" : name[name.rfind('_') - 3] == 'b';
  return encode_small(value, brain ? kBf8Fnuz : kFp8Fnuz, Rounding::kNearestEven);
}

std::string range_text(const char* file, unsigned first, unsigned count) {
  std::string begin = std::to_string(first);
  return count == 1 ? file + begin : file + ("[" + begin + ":" + std::to_string(first + count - 1) + "]");
}

void expect_product(const Shape& s, bool accumulators) {
  const std::string name = s.name;
  SCOPED_TRACE(std::string(s.processor) + " " + name);
  std::mt19937 random(7);
  const unsigned factor_registers = std::max(1u, s.k_per_lane * s.element_bits / 32);
  const unsigned result_bits = s.element_bits == 64 ? 64 : 32;
  const unsigned results = s.blocks * s.m * s.n / 64 * result_bits / 32;
  Registers a = registers_of(factor_registers), b = registers_of(factor_registers), c = registers_of(results);
  std::vector<int> x(s.blocks * s.m * s.k), y(s.blocks * s.k * s.n), z(s.blocks * s.m * s.n);
  for (auto* values : {&x, &y, &z})
    for (int& value : *values) value = number(random);
  const bool integer = name.starts_with("v_mfma_i32");
  for (unsigned block = 0; block < s.blocks; ++block) {
    for (unsigned k = 0; k < s.k; ++k) {
      for (unsigned i = 0; i < s.m; ++i)
        set_bits(a, i + s.m * (block + s.blocks * (k / s.k_per_lane)), k % s.k_per_lane, s.element_bits,
                 encoded(name, s.element_bits, x[(block * s.m + i) * s.k + k], false));
      for (unsigned j = 0; j < s.n; ++j)
        set_bits(b, j + s.n * (block + s.blocks * (k / s.k_per_lane)), k % s.k_per_lane, s.element_bits,
                 encoded(name, s.element_bits, y[(block * s.k + k) * s.n + j], true));
    }
    for (unsigned i = 0; i < s.m; ++i)
      for (unsigned j = 0; j < s.n; ++j) {
        int value = z[(block * s.m + i) * s.n + j];
        Place at = place(s, block, i, j);
        set_bits(c, at.lane, at.item, result_bits,
                 integer             ? static_cast<uint32_t>(value)
                 : result_bits == 64 ? std::bit_cast<uint64_t>(static_cast<double>(value))
                                     : bits_of(static_cast<float>(value)));
      }
  }
  const char* file = accumulators ? "a" : "v";
  const unsigned first = accumulators ? 0 : 18;
  std::string d = range_text(file, first, results);
  Registers out = run_matrix(s.processor,
                             name + " " + d + ", " + range_text("v", 2, factor_registers) + ", " +
                                 range_text("v", 10, factor_registers) + ", " + d,
                             a, b, c, results, accumulators);
  for (unsigned block = 0; block < s.blocks; ++block)
    for (unsigned i = 0; i < s.m; ++i)
      for (unsigned j = 0; j < s.n; ++j) {
        int want = z[(block * s.m + i) * s.n + j];
        for (unsigned k = 0; k < s.k; ++k) want += x[(block * s.m + i) * s.k + k] * y[(block * s.k + k) * s.n + j];
        Place at = place(s, block, i, j);
        uint64_t bits = get_bits(out, at.lane, at.item, result_bits);
        double got = integer             ? static_cast<int32_t>(bits)
                     : result_bits == 64 ? std::bit_cast<double>(bits)
                                         : float_of(static_cast<uint32_t>(bits));
        ASSERT_EQ(got, want) << "block " << block << " row " << i << " column " << j;
      }
}

const Shape kCdna4[] = {
    {"gfx950", "v_mfma_f32_16x16x32_f16", 16, 16, 32, 1, 8, 16},
    {"gfx950", "v_mfma_f32_32x32x16_f16", 32, 32, 16, 1, 8, 16},
    {"gfx950", "v_mfma_f32_16x16x32_bf16", 16, 16, 32, 1, 8, 16},
    {"gfx950", "v_mfma_f32_32x32x16_bf16", 32, 32, 16, 1, 8, 16},
    {"gfx950", "v_mfma_i32_16x16x64_i8", 16, 16, 64, 1, 16, 8},
    {"gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, 32, 1, 16, 8},
};

const Shape kCdna3[] = {
    {"gfx942", "v_mfma_f32_32x32x1_2b_f32", 32, 32, 1, 2, 1, 32},
    {"gfx942", "v_mfma_f32_16x16x1_4b_f32", 16, 16, 1, 4, 1, 32},
    {"gfx942", "v_mfma_f32_4x4x1_16b_f32", 4, 4, 1, 16, 1, 32},
    {"gfx942", "v_mfma_f32_32x32x2_f32", 32, 32, 2, 1, 1, 32},
    {"gfx942", "v_mfma_f32_16x16x4_f32", 16, 16, 4, 1, 1, 32},
    {"gfx942", "v_mfma_f32_32x32x4_2b_f16", 32, 32, 4, 2, 4, 16},
    {"gfx942", "v_mfma_f32_16x16x4_4b_f16", 16, 16, 4, 4, 4, 16},
    {"gfx942", "v_mfma_f32_4x4x4_16b_f16", 4, 4, 4, 16, 4, 16},
    {"gfx942", "v_mfma_f32_32x32x8_f16", 32, 32, 8, 1, 4, 16},
    {"gfx942", "v_mfma_f32_16x16x16_f16", 16, 16, 16, 1, 4, 16},
    {"gfx942", "v_mfma_f32_32x32x4_2b_bf16", 32, 32, 4, 2, 4, 16},
    {"gfx942", "v_mfma_f32_16x16x4_4b_bf16", 16, 16, 4, 4, 4, 16},
    {"gfx942", "v_mfma_f32_4x4x4_16b_bf16", 4, 4, 4, 16, 4, 16},
    {"gfx942", "v_mfma_f32_32x32x8_bf16", 32, 32, 8, 1, 4, 16},
    {"gfx942", "v_mfma_f32_16x16x16_bf16", 16, 16, 16, 1, 4, 16},
    {"gfx942", "v_mfma_i32_32x32x4_2b_i8", 32, 32, 4, 2, 4, 8},
    {"gfx942", "v_mfma_i32_16x16x4_4b_i8", 16, 16, 4, 4, 4, 8},
    {"gfx942", "v_mfma_i32_4x4x4_16b_i8", 4, 4, 4, 16, 4, 8},
    {"gfx942", "v_mfma_i32_32x32x16_i8", 32, 32, 16, 1, 8, 8},
    {"gfx942", "v_mfma_i32_16x16x32_i8", 16, 16, 32, 1, 8, 8},
    {"gfx942", "v_mfma_f32_16x16x8_xf32", 16, 16, 8, 1, 2, 32},
    {"gfx942", "v_mfma_f32_32x32x4_xf32", 32, 32, 4, 1, 2, 32},
    {"gfx942", "v_mfma_f64_16x16x4_f64", 16, 16, 4, 1, 1, 64},
    {"gfx942", "v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, 4, 1, 64},
    {"gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16, 16, 32, 1, 8, 8},
    {"gfx942", "v_mfma_f32_32x32x16_fp8_bf8", 32, 32, 16, 1, 8, 8},
    {"gfx942", "v_mfma_f32_16x16x32_bf8_fp8", 16, 16, 32, 1, 8, 8},
    {"gfx942", "v_mfma_f32_32x32x16_bf8_bf8", 32, 32, 16, 1, 8, 8},
};
const Shape kCdna2[] = {
    {"gfx90a", "v_mfma_f32_32x32x1f32", 32, 32, 1, 2, 1, 32},
    {"gfx90a", "v_mfma_f32_16x16x4f32", 16, 16, 4, 1, 1, 32},
    {"gfx90a", "v_mfma_f32_32x32x8f16", 32, 32, 8, 1, 4, 16},
    {"gfx90a", "v_mfma_f32_16x16x16f16", 16, 16, 16, 1, 4, 16},
    {"gfx90a", "v_mfma_f32_32x32x2bf16", 32, 32, 2, 2, 2, 16},
    {"gfx90a", "v_mfma_f32_16x16x8bf16", 16, 16, 8, 1, 2, 16},
    {"gfx90a", "v_mfma_f32_32x32x8bf16_1k", 32, 32, 8, 1, 4, 16},
    {"gfx90a", "v_mfma_f32_4x4x4bf16_1k", 4, 4, 4, 16, 4, 16},
    {"gfx90a", "v_mfma_i32_32x32x8i8", 32, 32, 8, 1, 4, 8},
    {"gfx90a", "v_mfma_i32_16x16x16i8", 16, 16, 16, 1, 4, 8},
    {"gfx90a", "v_mfma_f64_16x16x4f64", 16, 16, 4, 1, 1, 64},
    {"gfx90a", "v_mfma_f64_4x4x4f64", 4, 4, 4, 4, 1, 64},
};

TEST(Mfma, MultipliesEveryShapeOfCdna3InBothRegisterFiles) {
  for (const Shape& shape : kCdna3)
    for (bool accumulators : {false, true}) expect_product(shape, accumulators);
}

TEST(Mfma, MultipliesTheLongerShapesOfCdna4) {
  for (const Shape& shape : kCdna4)
    for (bool accumulators : {false, true}) expect_product(shape, accumulators);
}

TEST(Mfma, MultipliesTheShapesOfCdna2) {
  for (const Shape& shape : kCdna2) expect_product(shape, true);
}

// Every value of a factor that one lane holds alone, through an otherwise unit product.
float diagonal(const std::string& instruction, unsigned registers, uint32_t a, uint32_t b, float c) {
  Registers x = registers_of(registers), y = registers_of(registers), z = registers_of(4);
  x[0][0] = a;
  y[0][0] = b;
  for (auto& row : z) std::fill(row.begin(), row.end(), bits_of(c));
  Registers out = run_matrix(instruction.find("f16f16") == std::string::npos ? "gfx942" : "gfx90a",
                             instruction + " v[18:21], " + range_text("v", 2, registers) + ", " +
                                 range_text("v", 10, registers) + ", v[18:21]",
                             x, y, z, 4, false);
  return float_of(out[0][0]);
}

TEST(Mfma, KeepsInfinitiesNansAndSubnormalHalves) {
  const std::string f16 = "v_mfma_f32_16x16x16_f16";
  EXPECT_EQ(diagonal(f16, 2, 0x7c00, 0x3c00, 1), INFINITY);
  EXPECT_TRUE(std::isnan(diagonal(f16, 2, 0x7e00, 0x3c00, 1)));
  EXPECT_TRUE(std::isnan(diagonal(f16, 2, 0x7c00, 0x0000, 1)));
  EXPECT_EQ(diagonal(f16, 2, 0x0001, 0x3c00, 0), 0x1p-24f);
  EXPECT_EQ(diagonal("v_mfma_f32_16x16x16_bf16", 2, 0x0001, 0x7f00, 0), 0x1p-133f * 0x1p127f);
}

TEST(Mfma, ReadsFnuzBytes) {
  const std::string fp8 = "v_mfma_f32_16x16x32_fp8_fp8";
  EXPECT_EQ(diagonal(fp8, 2, 0x7f, 0x40, 0), 240.0f) << "0x7f is the largest number";
  EXPECT_EQ(diagonal(fp8, 2, 0x01, 0x40, 0), 0x1p-10f);
  EXPECT_TRUE(std::isnan(diagonal(fp8, 2, 0x80, 0x40, 0))) << "negative zero is the NaN";
  EXPECT_EQ(diagonal("v_mfma_f32_16x16x32_bf8_bf8", 2, 0x7f, 0x40, 0), 57344.0f);
}

TEST(Mfma, RoundsXf32ToTenBits) {
  const std::string xf32 = "v_mfma_f32_16x16x8_xf32";
  EXPECT_EQ(diagonal(xf32, 2, bits_of(1 + 0x1p-10f), bits_of(1.0f), 0), 1 + 0x1p-10f);
  EXPECT_EQ(diagonal(xf32, 2, bits_of(1 + 0x1p-12f), bits_of(1.0f), 0), 1.0f);
}

TEST(Mfma, BroadcastsBlocksOfA) {
  // cbsz:1 abid:1 — of each pair of blocks the second one's A serves both.
  Registers a = registers_of(1), b = registers_of(1), c = registers_of(4);
  for (unsigned lane = 0; lane < 64; ++lane) {
    a[0][lane] = bits_of(static_cast<float>(lane / 4));
    b[0][lane] = bits_of(1.0f);
  }
  Registers out =
      run_matrix("gfx942", "v_mfma_f32_4x4x1_16b_f32 v[18:21], v2, v10, v[18:21] cbsz:1 abid:1", a, b, c, 4, false);
  for (unsigned lane = 0; lane < 64; ++lane) EXPECT_EQ(float_of(out[0][lane]), static_cast<float>(lane / 4 | 1));
}

TEST(Mfma, PermutesLanesOfB) {
  // blgp:3 — each lane takes the B of the lane 16 further on.
  Registers a = registers_of(1), b = registers_of(1), c = registers_of(4);
  for (unsigned lane = 0; lane < 64; ++lane) {
    a[0][lane] = bits_of(1.0f);
    b[0][lane] = bits_of(static_cast<float>(lane));
  }
  Registers out =
      run_matrix("gfx942", "v_mfma_f32_4x4x1_16b_f32 v[18:21], v2, v10, v[18:21] blgp:3", a, b, c, 4, false);
  for (unsigned lane = 0; lane < 64; ++lane) EXPECT_EQ(float_of(out[0][lane]), static_cast<float>((lane + 16) % 64));
}

TEST(Mfma, NegatesOperandsOfF64) {
  Registers a = registers_of(2), b = registers_of(2), c = registers_of(2);
  auto set = [](Registers& registers, double value) {
    for (unsigned lane = 0; lane < 64; ++lane) set_bits(registers, lane, 0, 64, std::bit_cast<uint64_t>(value));
  };
  set(a, 2);
  set(b, 3);
  set(c, 5);
  Registers out = run_matrix("gfx942", "v_mfma_f64_4x4x4_4b_f64 v[18:19], v[2:3], v[10:11], v[18:19] neg:[1,0,1]", a, b,
                             c, 2, false);
  EXPECT_EQ(std::bit_cast<double>(get_bits(out, 0, 0, 64)), -4 * 6 - 5);
}

// CDNA 4 (AMD's ISA guide, and the tables of Composable Kernel). Of 8 bits a lane has 16 neighbours of each half of k,
// of 4 bits 32 neighbours; lane i + M·b has the scale of row i for the b-th 32 of k.
struct ScaledShape {
  const char* name;
  unsigned m, k, bits;
};

void expect_scaled_product(const ScaledShape& s) {
  SCOPED_TRACE(s.name);
  std::mt19937 random(11);
  const unsigned words = 32 * s.bits / 32, results = s.m * s.m / 64, blocks = s.k / 32;
  Registers a = registers_of(words), b = registers_of(words), c = registers_of(results + 2);
  std::vector<int> x(s.m * s.k), y(s.m * s.k), z(s.m * s.m), x_scale(s.m * blocks), y_scale(s.m * blocks);
  for (auto* values : {&x, &y, &z})
    for (int& value : *values) value = number(random);
  for (auto* scales : {&x_scale, &y_scale})
    for (int& scale : *scales) scale = static_cast<int>(random() % 5) - 2;
  // Codes of -4 … 4 in e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
  constexpr uint32_t kCodes[] = {0, 2, 4, 5, 6};
  const auto code = [&](int value) {
    if (s.bits == 8) return encode_small(value, kFp8, Rounding::kNearestEven);
    return kCodes[std::abs(value)] | (value < 0 ? 8u : 0u);
  };
  for (unsigned i = 0; i < s.m; ++i)
    for (unsigned k = 0; k < s.k; ++k) {
      const unsigned group = s.bits == 8 ? k % (s.k / 2) / 16 : k / 32;
      const unsigned place = s.bits == 8 ? k % 16 + 16 * (k / (s.k / 2)) : k % 32;
      set_bits(a, i + s.m * group, place, s.bits, code(x[i * s.k + k]));
      set_bits(b, i + s.m * group, place, s.bits, code(y[i * s.k + k]));
    }
  for (unsigned i = 0; i < s.m; ++i)
    for (unsigned block = 0; block < blocks; ++block) {
      // Of A the third byte, of B the second: op_sel and op_sel_hi.
      set_bits(c, i + s.m * block, 4 * results + 2, 8, static_cast<uint32_t>(127 + x_scale[i * blocks + block]));
      set_bits(c, i + s.m * block, 4 * (results + 1) + 1, 8, static_cast<uint32_t>(127 + y_scale[i * blocks + block]));
    }
  const Shape dense{"gfx950", s.name, s.m, s.m, s.k, 1, 8, 8};
  for (unsigned i = 0; i < s.m; ++i)
    for (unsigned j = 0; j < s.m; ++j) {
      const Place at = place(dense, 0, i, j);
      set_bits(c, at.lane, at.item, 32, bits_of(static_cast<float>(z[i * s.m + j])));
    }
  const std::string d = range_text("v", 18, results), first = std::to_string(18 + results),
                    second = std::to_string(19 + results);
  const std::string kinds = s.bits == 4 ? " cbsz:4 blgp:4" : "";
  const Registers out =
      run_matrix("gfx950",
                 std::string(s.name) + " " + d + ", " + range_text("v", 2, words) + ", " + range_text("v", 10, words) +
                     ", " + d + ", v" + first + ", v" + second + " op_sel:[0,1,0] op_sel_hi:[1,0,0]" + kinds,
                 a, b, c, results, false);
  for (unsigned i = 0; i < s.m; ++i)
    for (unsigned j = 0; j < s.m; ++j) {
      double want = z[i * s.m + j];
      for (unsigned k = 0; k < s.k; ++k) {
        const int scale = x_scale[i * blocks + k / 32] + y_scale[j * blocks + k / 32];
        want += std::ldexp(x[i * s.k + k] * y[j * s.k + k], scale);
      }
      const Place at = place(dense, 0, i, j);
      ASSERT_EQ(float_of(out[at.item][at.lane]), want) << "row " << i << " column " << j;
    }
}

TEST(Mfma, ScalesBlocksOfBytesAndOfFourBits) {
  for (unsigned bits : {8u, 4u}) {
    expect_scaled_product({"v_mfma_scale_f32_16x16x128_f8f6f4", 16, 128, bits});
    expect_scaled_product({"v_mfma_scale_f32_32x32x64_f8f6f4", 32, 64, bits});
  }
}

TEST(Mfma, ReadsBytesOfOcpOnGfx950) {
  Registers x = registers_of(2), y = registers_of(2), z = registers_of(4);
  x[0][0] = 0x7e;  // the largest, 448
  y[0][0] = 0x38;  // 1
  const Registers out =
      run_matrix("gfx950", "v_mfma_f32_16x16x32_fp8_fp8 v[18:21], v[2:3], v[10:11], v[18:21]", x, y, z, 4, false);
  EXPECT_EQ(float_of(out[0][0]), 448.0f);
}

// WMMA (AMD's RDNA3 and RDNA4 ISA guides): gfx11's lanes hold whole rows, twice; gfx12's halves of them.
struct WaveMatrix {
  const char* processor;
  const char* name;
  unsigned element_bits;
  unsigned k;
  unsigned result_bits;
  const char* modifiers;
};

void expect_wave_product(const WaveMatrix& m) {
  const std::string name = m.name;
  SCOPED_TRACE(std::string(m.processor) + " " + name);
  const bool gfx11 = std::string(m.processor) == "gfx1100";
  const bool integer = name.find("i32") != std::string::npos;
  std::mt19937 random(9);
  auto encode = [&](int value) -> uint64_t {
    if (integer) return static_cast<uint32_t>(value) & ((1u << m.element_bits) - 1);
    if (m.element_bits == 8) return encode_small(value, name.ends_with("bf8") ? kBf8 : kFp8, Rounding::kNearestEven);
    return name.ends_with("bf16") ? bits_of(static_cast<float>(value)) >> 16 : float_to_half(static_cast<float>(value));
  };
  int x[16][32], y[32][16], z[16][16];
  const unsigned per_lane = gfx11 ? m.k : m.k / 2;
  const unsigned factors = std::max(1u, per_lane * m.element_bits / 32);
  Registers a = registers_of(factors), b = registers_of(factors);
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned k = 0; k < m.k; ++k) {
      x[i][k] = number(random);
      y[k][i] = number(random);
      for (unsigned copy = 0; copy < (gfx11 ? 2u : 1u); ++copy) {
        unsigned lane = gfx11 ? i + 16 * copy : i + 16 * (k / per_lane);
        set_bits(a, lane, k % per_lane, m.element_bits, encode(x[i][k]));
        set_bits(b, lane, k % per_lane, m.element_bits, encode(y[k][i]));
      }
    }
  const unsigned results = gfx11 || m.result_bits == 32 ? 8 : 4;
  Registers c = registers_of(results);
  // gfx11 spends a register on each half, gfx12 packs them.
  auto index_of = [&](unsigned i) { return gfx11 ? i / 2 * (m.result_bits == 16 ? 2 : 1) : i % 8; };
  auto lane_of = [&](unsigned i, unsigned j) { return gfx11 ? j + 16 * (i % 2) : j + 16 * (i / 8); };
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned j = 0; j < 16; ++j) {
      z[i][j] = number(random);
      uint64_t bits = integer               ? static_cast<uint32_t>(z[i][j])
                      : m.result_bits == 16 ? encode(z[i][j])
                                            : bits_of(static_cast<float>(z[i][j]));
      set_bits(c, lane_of(i, j), index_of(i), m.result_bits, bits);
    }
  std::string d = range_text("v", 18, results);
  Registers out = run_matrix(m.processor,
                             name + " " + d + ", " + range_text("v", 2, factors) + ", " + range_text("v", 10, factors) +
                                 ", " + d + m.modifiers,
                             a, b, c, results, false);
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned j = 0; j < 16; ++j) {
      int want = z[i][j];
      for (unsigned k = 0; k < m.k; ++k) want += x[i][k] * y[k][j];
      auto bits = static_cast<uint32_t>(get_bits(out, lane_of(i, j), index_of(i), m.result_bits));
      double got = integer                  ? static_cast<int32_t>(bits)
                   : m.result_bits == 32    ? float_of(bits)
                   : name.ends_with("bf16") ? brain_to_float(bits)
                                            : half_to_float(bits);
      ASSERT_EQ(got, want) << "row " << i << " column " << j;
    }
}

const WaveMatrix kWave[] = {
    {"gfx1100", "v_wmma_f32_16x16x16_f16", 16, 16, 32, ""},
    {"gfx1100", "v_wmma_f32_16x16x16_bf16", 16, 16, 32, ""},
    {"gfx1100", "v_wmma_f16_16x16x16_f16", 16, 16, 16, ""},
    {"gfx1100", "v_wmma_bf16_16x16x16_bf16", 16, 16, 16, ""},
    {"gfx1100", "v_wmma_i32_16x16x16_iu8", 8, 16, 32, " neg_lo:[1,1,0]"},
    {"gfx1100", "v_wmma_i32_16x16x16_iu4", 4, 16, 32, " neg_lo:[1,1,0]"},
    {"gfx1200", "v_wmma_f32_16x16x16_f16", 16, 16, 32, ""},
    {"gfx1200", "v_wmma_f32_16x16x16_bf16", 16, 16, 32, ""},
    {"gfx1200", "v_wmma_f16_16x16x16_f16", 16, 16, 16, ""},
    {"gfx1200", "v_wmma_bf16_16x16x16_bf16", 16, 16, 16, ""},
    {"gfx1200", "v_wmma_i32_16x16x16_iu8", 8, 16, 32, " neg_lo:[1,1,0]"},
    {"gfx1200", "v_wmma_i32_16x16x32_iu4", 4, 32, 32, " neg_lo:[1,1,0]"},
    {"gfx1200", "v_wmma_f32_16x16x16_fp8_fp8", 8, 16, 32, ""},
    {"gfx1200", "v_wmma_f32_16x16x16_bf8_bf8", 8, 16, 32, ""},
};

TEST(Wmma, MultipliesEveryType) {
  for (const WaveMatrix& matrix : kWave) expect_wave_product(matrix);
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
