// Vector integer and logic instructions of 32 and 64 bits.
#include <algorithm>
#include <bit>

#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

uint64_t u24(uint32_t a) { return a & 0xffffff; }
int64_t i24(uint32_t a) { return static_cast<int32_t>(a << 8) >> 8; }

void add_arithmetic(Table& table) {
  // In wider types, so that clamp saturates.
  table["v_add_u32"] = table["v_add_nc_u32"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return int64_t{a} + b; });
  table["v_sub_u32"] = table["v_sub_nc_u32"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return int64_t{a} - b; });
  table["v_subrev_u32"] = table["v_subrev_nc_u32"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return int64_t{b} - a; });
  table["v_add_i32"] = table["v_add_nc_i32"] =
      vector<I32, I32, I32>([](int32_t a, int32_t b) { return int64_t{a} + b; });
  table["v_sub_i32"] = table["v_sub_nc_i32"] =
      vector<I32, I32, I32>([](int32_t a, int32_t b) { return int64_t{a} - b; });
  table["v_mul_lo_u32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return a * b; });
  table["v_mul_hi_u32"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); });
  table["v_mul_hi_i32"] =
      vector<I32, I32, I32>([](int32_t a, int32_t b) { return static_cast<int32_t>(int64_t{a} * b >> 32); });
  table["v_mul_u32_u24"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(u24(a) * u24(b)); });
  table["v_mul_hi_u32_u24"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(u24(a) * u24(b) >> 32); });
  table["v_mul_i32_i24"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(i24(a) * i24(b)); });
  table["v_mul_hi_i32_i24"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(i24(a) * i24(b) >> 32); });
  table["v_mad_u32_u24"] = vector<U32, U32, U32, U32>(
      [](uint32_t a, uint32_t b, uint32_t c) { return static_cast<int64_t>((u24(a) * u24(b) & 0xffffffff) + c); });
  table["v_mad_i32_i24"] = vector<I32, U32, U32, I32>(
      [](uint32_t a, uint32_t b, int32_t c) { return int64_t{static_cast<int32_t>(i24(a) * i24(b))} + c; });
  table["v_min_u32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return std::min(a, b); });
  table["v_max_u32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return std::max(a, b); });
  table["v_min_i32"] = vector<I32, I32, I32>([](int32_t a, int32_t b) { return std::min(a, b); });
  table["v_max_i32"] = vector<I32, I32, I32>([](int32_t a, int32_t b) { return std::max(a, b); });
}

template <class K>
void add_three_way(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["v_min3_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return std::min({a, b, c}); });
  table["v_max3_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return std::max({a, b, c}); });
  table["v_med3_" + type] =
      vector<K, K, K, K>([](V a, V b, V c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); });
  table["v_minmax_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return std::max(std::min(a, b), c); });
  table["v_maxmin_" + type] = vector<K, K, K, K>([](V a, V b, V c) { return std::min(std::max(a, b), c); });
}

void add_logic(Table& table) {
  auto move = vector<U32, U32>([](uint32_t a) { return a; });
  table["v_mov_b32"] = table["v_accvgpr_read_b32"] = table["v_accvgpr_write_b32"] = table["v_accvgpr_mov_b32"] = move;
  table["v_mov_b64"] = vector<U64, U64>([](uint64_t a) { return a; });
  table["v_and_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return a & b; });
  table["v_or_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return a | b; });
  table["v_xor_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return a ^ b; });
  table["v_xnor_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return ~(a ^ b); });
  table["v_not_b32"] = vector<U32, U32>([](uint32_t a) { return ~a; });
  table["v_and_or_b32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | c; });
  table["v_or3_b32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return a | b | c; });
  table["v_xor3_b32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return a ^ b ^ c; });
  table["v_bfi_b32"] =
      vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | (~a & c); });
  table["v_bfm_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  table["v_bfe_u32"] = vector<U32, U32, U32, U32>(
      [](uint32_t a, uint32_t offset, uint32_t width) { return a >> (offset & 31) & ((1u << (width & 31)) - 1); });
  table["v_bfe_i32"] = vector<I32, I32, U32, U32>([](int32_t a, uint32_t offset, uint32_t width) {
    uint32_t w = width & 31;
    int32_t moved = a >> (offset & 31);
    uint32_t sign = w ? 1u << (w - 1) : 0;
    return w ? static_cast<int32_t>(((static_cast<uint32_t>(moved) & ((1u << w) - 1)) ^ sign) - sign) : 0;
  });
}

void add_shifts(Table& table) {
  table["v_lshlrev_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return b << (a & 31); });
  table["v_lshrrev_b32"] = vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return b >> (a & 31); });
  table["v_ashrrev_i32"] = vector<I32, U32, I32>([](uint32_t a, int32_t b) { return b >> (a & 31); });
  table["v_lshlrev_b64"] = vector<U64, U32, U64>([](uint32_t a, uint64_t b) { return b << (a & 63); });
  table["v_lshrrev_b64"] = vector<U64, U32, U64>([](uint32_t a, uint64_t b) { return b >> (a & 63); });
  table["v_ashrrev_i64"] = vector<I64, U32, I64>([](uint32_t a, int64_t b) { return b >> (a & 63); });
  table["v_lshl_add_u32"] =
      vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return (a << (b & 31)) + c; });
  // Counts above 4 shift by nothing.
  table["v_lshl_add_u64"] = vector<U64, U64, U32, U64>(
      [](uint64_t a, uint32_t b, uint64_t c) { return (a << ((b & 7) > 4 ? 0 : b & 7)) + c; });
  table["v_lshl_or_b32"] =
      vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return (a << (b & 31)) | c; });
  table["v_add_lshl_u32"] =
      vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return (a + b) << (c & 31); });
  table["v_add3_u32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return a + b + c; });
  table["v_xad_u32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return (a ^ b) + c; });
  table["v_alignbit_b32"] = vector<U32, U32, U32, U32>(
      [](uint32_t a, uint32_t b, uint32_t c) { return static_cast<uint32_t>((uint64_t{a} << 32 | b) >> (c & 31)); });
  table["v_alignbyte_b32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) {
    return static_cast<uint32_t>((uint64_t{a} << 32 | b) >> (8 * (c & 3)));
  });
}

uint32_t permute_byte(uint64_t bytes, uint32_t selector) {
  if (selector >= 13) return 0xff;
  if (selector == 12) return 0;
  if (selector >= 8) return bytes >> (16 * (selector - 8) + 15) & 1 ? 0xff : 0;  // the sign of a half
  return static_cast<uint32_t>(bytes >> (8 * selector)) & 0xff;
}

template <class Difference>
uint32_t sum_of_bytes(uint32_t a, uint32_t b, Difference difference) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < 32; i += 8) sum += difference(a >> i & 0xff, b >> i & 0xff);
  return sum;
}

uint32_t distance(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

void add_bits(Table& table) {
  table["v_bfrev_b32"] = vector<U32, U32>([](uint32_t a) {
    a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
    a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
    a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(a);
  });
  table["v_ffbh_u32"] = table["v_clz_i32_u32"] =
      vector<I32, U32>([](uint32_t a) { return a ? std::countl_zero(a) : -1; });
  table["v_ffbl_b32"] = table["v_ctz_i32_b32"] =
      vector<I32, U32>([](uint32_t a) { return a ? std::countr_zero(a) : -1; });
  table["v_ffbh_i32"] = table["v_cls_i32"] = vector<I32, I32>([](int32_t a) {
    auto bits = static_cast<uint32_t>(a < 0 ? ~a : a);
    return bits ? std::countl_zero(bits) : -1;
  });
  table["v_bcnt_u32_b32"] =
      vector<U32, U32, U32>([](uint32_t a, uint32_t b) { return static_cast<uint32_t>(std::popcount(a)) + b; });
  table["v_perm_b32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) {
    uint64_t bytes = uint64_t{a} << 32 | b;
    uint32_t result = 0;
    for (unsigned i = 0; i < 32; i += 8) result |= permute_byte(bytes, c >> i & 0xff) << i;
    return result;
  });
  table["v_sad_u8"] = vector<U32, U32, U32, U32>(
      [](uint32_t a, uint32_t b, uint32_t c) { return int64_t{sum_of_bytes(a, b, distance)} + c; });
  table["v_sad_hi_u8"] = vector<U32, U32, U32, U32>(
      [](uint32_t a, uint32_t b, uint32_t c) { return int64_t{sum_of_bytes(a, b, distance) << 16} + c; });
  table["v_sad_u16"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) {
    return int64_t{distance(a & 0xffff, b & 0xffff)} + distance(a >> 16, b >> 16) + c;
  });
  table["v_sad_u32"] =
      vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return int64_t{distance(a, b)} + c; });
  table["v_msad_u8"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) {
    auto masked = [](uint32_t x, uint32_t y) { return y ? distance(x, y) : 0; };
    return int64_t{sum_of_bytes(a, b, masked)} + c;
  });
  table["v_lerp_u8"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (unsigned i = 0; i < 32; i += 8) result |= ((a >> i & 0xff) + (b >> i & 0xff) + (c >> i & 1)) >> 1 << i;
    return result;
  });
}

// The number of the mask's bits below this lane: of lanes 0 to 31, then of 32 to 63.
template <bool High>
void count_lanes(Wave& wave, const Instruction& instruction) {
  Lanes<U32> masks, sums, result;
  begin_vector(wave, instruction);
  const uint32_t* mask = fetch<U32>(wave, instruction, 1, masks);
  const uint32_t* sum = fetch<U32>(wave, instruction, 2, sums);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    uint64_t below = (uint64_t{1} << lane) - 1;
    auto part = static_cast<uint32_t>(High ? below >> 32 : below);
    result[lane] = static_cast<uint32_t>(std::popcount(mask[lane] & part)) + sum[lane];
  }
  store<U32>(wave, instruction, 0, result);
}

// Each bit of the result by a table of eight: S0 is the highest bit of the index.
template <class K>
void choose_bits(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  std::array<Lanes<K>, 3> buffers;
  std::array<const typename K::Bits*, 3> sources;
  for (unsigned i = 0; i < 3; ++i) sources[i] = fetch<K>(wave, instruction, 1 + i, buffers[i]);
  Lanes<K> result;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    typename K::Bits bits = 0;
    for (unsigned index = 0; index < 8; ++index) {
      if (!(instruction.truth_table >> index & 1)) continue;
      const auto side = [&](unsigned source) {
        const typename K::Bits x = sources[source][lane];
        return index >> (2 - source) & 1 ? x : static_cast<typename K::Bits>(~x);
      };
      bits = static_cast<typename K::Bits>(bits | (side(0) & side(1) & side(2)));
    }
    result[lane] = bits;
  }
  store<K>(wave, instruction, 0, result);
}

}  // namespace

void add_vector_integer(Table& table) {
  table["v_bitop3_b32"] = table["v_bitop2_b32"] = choose_bits<U32>;  // a third source that is missing is 0
  table["v_bitop3_b16"] = choose_bits<U16>;
  add_arithmetic(table);
  add_three_way<U32>(table, "u32");
  add_three_way<I32>(table, "i32");
  add_three_way<U16>(table, "u16");
  add_three_way<I16>(table, "i16");
  add_logic(table);
  add_shifts(table);
  add_bits(table);
  table["v_mbcnt_lo_u32_b32"] = count_lanes<false>;
  table["v_mbcnt_hi_u32_b32"] = count_lanes<true>;
}

}  // namespace kiln::amdgcn_emulator
