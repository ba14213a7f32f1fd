// Scalar integer and logic instructions: SOP1, SOP2, SOPC, SOPK.
#include <algorithm>
#include <bit>

#include "scalar.h"

namespace kiln::amdgcn_emulator {
namespace {

template <class V>
V bitfield_mask(uint32_t width, uint32_t offset) {
  return static_cast<V>(((V{1} << width) - 1) << offset);
}

// offset in bits 0 to 5 (4), width in bits 16 to 22; a width that reaches over the top stops there.
template <class V>
V extract(V value, uint32_t field) {
  constexpr unsigned bits = sizeof(V) * 8;
  using Unsigned = std::make_unsigned_t<V>;
  unsigned offset = field & (bits - 1);
  unsigned width = std::min(field >> 16 & 0x7f, bits - offset);
  if (width == 0) return 0;
  auto moved = static_cast<Unsigned>(static_cast<Unsigned>(value) << (bits - offset - width));
  return static_cast<V>(static_cast<V>(moved) >> (bits - width));
}

template <class V>
int32_t leading_different(V value) {  // of s_flbit_i32, s_cls: bits until one differs from the sign
  using U = std::make_unsigned_t<V>;
  U bits = static_cast<U>(value < 0 ? ~value : value);
  return bits == 0 ? -1 : std::countl_zero(bits);
}

uint64_t whole_quads(uint64_t value) {
  uint64_t any = (value | value >> 1 | value >> 2 | value >> 3) & 0x1111111111111111;
  return any * 15;
}

uint64_t quad_mask(uint64_t value) {
  uint64_t result = 0;
  for (unsigned quad = 0; quad < 16; ++quad) result |= uint64_t{(value >> (4 * quad) & 15) != 0} << quad;
  return result;
}

uint64_t replicate(uint32_t value) {
  uint64_t result = 0;
  for (unsigned bit = 0; bit < 32; ++bit) result |= (uint64_t{value >> bit & 1} * 3) << (2 * bit);
  return result;
}

template <class V>
V reverse(V value) {
  V result = 0;
  for (unsigned bit = 0; bit < sizeof(V) * 8; ++bit) result = static_cast<V>(result << 1 | (value >> bit & 1));
  return result;
}

void add_arithmetic(Table& table) {
  auto add_u = scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = a + b < a;
    return a + b;
  });
  auto sub_u = scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = b > a;
    return a - b;
  });
  auto add_i = scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = (~(a ^ b) & (a ^ (a + b))) >> 31;
    return a + b;
  });
  auto sub_i = scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = ((a ^ b) & (a ^ (a - b))) >> 31;
    return a - b;
  });
  auto addc = scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) {
    uint64_t sum = uint64_t{a} + b + wave.scc;
    wave.scc = sum >> 32;
    return static_cast<uint32_t>(sum);
  });
  auto subb = scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) {
    uint64_t subtrahend = uint64_t{b} + wave.scc;
    wave.scc = subtrahend > a;
    return static_cast<uint32_t>(a - subtrahend);
  });
  table["s_add_u32"] = table["s_add_co_u32"] = add_u;
  table["s_sub_u32"] = table["s_sub_co_u32"] = sub_u;
  table["s_add_i32"] = table["s_add_co_i32"] = add_i;
  table["s_sub_i32"] = table["s_sub_co_i32"] = sub_i;
  table["s_addc_u32"] = table["s_add_co_ci_u32"] = addc;
  table["s_subb_u32"] = table["s_sub_co_ci_u32"] = subb;
  table["s_add_u64"] = table["s_add_nc_u64"] = scalar<U64, U64, U64>([](uint64_t a, uint64_t b) { return a + b; });
  table["s_sub_u64"] = table["s_sub_nc_u64"] = scalar<U64, U64, U64>([](uint64_t a, uint64_t b) { return a - b; });
  table["s_mul_u64"] = scalar<U64, U64, U64>([](uint64_t a, uint64_t b) { return a * b; });
  table["s_mul_i32"] = scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return a * b; });
  table["s_mul_hi_u32"] = scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return uint64_t{a} * b >> 32; });
  table["s_mul_hi_i32"] = scalar<I32, I32, I32>([](int32_t a, int32_t b) { return int64_t{a} * b >> 32; });
  auto absdiff = scalar_nonzero<U32, I32, I32>(
      [](int32_t a, int32_t b) { return static_cast<uint32_t>(a > b ? int64_t{a} - b : int64_t{b} - a); });
  table["s_absdiff_i32"] = absdiff;
  table["s_abs_i32"] =
      scalar_nonzero<U32, I32>([](int32_t a) { return static_cast<uint32_t>(a < 0 ? -int64_t{a} : a); });
  // SCC tells whether the first operand was chosen.
  table["s_min_i32"] =
      scalar<I32, I32, I32>([](Wave& wave, int32_t a, int32_t b) { return (wave.scc = a < b) ? a : b; });
  table["s_max_i32"] =
      scalar<I32, I32, I32>([](Wave& wave, int32_t a, int32_t b) { return (wave.scc = a >= b) ? a : b; });
  table["s_min_u32"] =
      scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) { return (wave.scc = a < b) ? a : b; });
  table["s_max_u32"] =
      scalar<U32, U32, U32>([](Wave& wave, uint32_t a, uint32_t b) { return (wave.scc = a >= b) ? a : b; });
}

template <unsigned Shift>
uint32_t shift_add(Wave& wave, uint32_t a, uint32_t b) {
  uint64_t sum = (uint64_t{a} << Shift) + b;
  wave.scc = sum >> 32;
  return static_cast<uint32_t>(sum);
}

void add_shifts(Table& table) {
  table["s_lshl_b32"] = scalar_nonzero<U32, U32, U32>([](uint32_t a, uint32_t b) { return a << (b & 31); });
  table["s_lshr_b32"] = scalar_nonzero<U32, U32, U32>([](uint32_t a, uint32_t b) { return a >> (b & 31); });
  table["s_ashr_i32"] = scalar_nonzero<I32, I32, U32>([](int32_t a, uint32_t b) { return a >> (b & 31); });
  table["s_lshl_b64"] = scalar_nonzero<U64, U64, U32>([](uint64_t a, uint32_t b) { return a << (b & 63); });
  table["s_lshr_b64"] = scalar_nonzero<U64, U64, U32>([](uint64_t a, uint32_t b) { return a >> (b & 63); });
  table["s_ashr_i64"] = scalar_nonzero<I64, I64, U32>([](int64_t a, uint32_t b) { return a >> (b & 63); });
  table["s_lshl1_add_u32"] =
      scalar<U32, U32, U32>([](Wave& w, uint32_t a, uint32_t b) { return shift_add<1>(w, a, b); });
  table["s_lshl2_add_u32"] =
      scalar<U32, U32, U32>([](Wave& w, uint32_t a, uint32_t b) { return shift_add<2>(w, a, b); });
  table["s_lshl3_add_u32"] =
      scalar<U32, U32, U32>([](Wave& w, uint32_t a, uint32_t b) { return shift_add<3>(w, a, b); });
  table["s_lshl4_add_u32"] =
      scalar<U32, U32, U32>([](Wave& w, uint32_t a, uint32_t b) { return shift_add<4>(w, a, b); });
  table["s_bfm_b32"] =
      scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return bitfield_mask<uint32_t>(a & 31, b & 31); });
  table["s_bfm_b64"] =
      scalar<U64, U32, U32>([](uint32_t a, uint32_t b) { return bitfield_mask<uint64_t>(a & 63, b & 63); });
  table["s_bfe_u32"] = scalar_nonzero<U32, U32, U32>([](uint32_t a, uint32_t b) { return extract(a, b); });
  table["s_bfe_i32"] = scalar_nonzero<I32, I32, U32>([](int32_t a, uint32_t b) { return extract(a, b); });
  table["s_bfe_u64"] = scalar_nonzero<U64, U64, U32>([](uint64_t a, uint32_t b) { return extract(a, b); });
  table["s_bfe_i64"] = scalar_nonzero<I64, I64, U32>([](int64_t a, uint32_t b) { return extract(a, b); });
}

template <class K>
void add_logic(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["s_and_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return a & b; });
  table["s_or_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return a | b; });
  table["s_xor_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return a ^ b; });
  table["s_andn2_" + type] = table["s_and_not1_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return a & ~b; });
  table["s_orn2_" + type] = table["s_or_not1_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return a | ~b; });
  table["s_nand_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return ~(a & b); });
  table["s_nor_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return ~(a | b); });
  table["s_xnor_" + type] = scalar_nonzero<K, K, K>([](V a, V b) { return ~(a ^ b); });
  table["s_not_" + type] = scalar_nonzero<K, K>([](V a) { return ~a; });
  table["s_mov_" + type] = scalar<K, K>([](V a) { return a; });
  table["s_brev_" + type] = scalar<K, K>([](V a) { return reverse(a); });
  table["s_wqm_" + type] = scalar_nonzero<K, K>([](V a) { return static_cast<V>(whole_quads(a)); });
  table["s_quadmask_" + type] = scalar_nonzero<K, K>([](V a) { return static_cast<V>(quad_mask(a)); });
  table["s_cselect_" + type] = scalar<K, K, K>([](Wave& wave, V a, V b) { return wave.scc ? a : b; });
  table["s_bcnt1_i32_" + type] = scalar_nonzero<U32, K>([](V a) { return std::popcount(a); });
  table["s_bcnt0_i32_" + type] = scalar_nonzero<U32, K>([](V a) { return std::popcount(static_cast<V>(~a)); });
  auto first_one = scalar<I32, K>([](V a) { return a ? std::countr_zero(a) : -1; });
  auto last_one = scalar<I32, K>([](V a) { return a ? std::countl_zero(a) : -1; });
  table["s_ff1_i32_" + type] = table["s_ctz_i32_" + type] = first_one;
  table["s_ff0_i32_" + type] = scalar<I32, K>([](V a) { return ~a ? std::countr_one(a) : -1; });
  table["s_flbit_i32_" + type] = table["s_clz_i32_u" + type.substr(1)] = last_one;
  table["s_bitcmp0_" + type] = scalar_compare<K, U32>([](V a, uint32_t b) { return !(a >> (b % K::width) & 1); });
  table["s_bitcmp1_" + type] = scalar_compare<K, U32>([](V a, uint32_t b) { return (a >> (b % K::width) & 1) != 0; });
}

void conditional_move(Wave& wave, const Instruction& instruction, unsigned width) {
  if (!wave.scc) return;
  uint64_t bits = uniform_bits(wave, instruction.operands[1], Format::kBits, width);
  if (width == 64)
    write_scalar<U64>(wave, instruction.operands[0], bits);
  else
    write_scalar<U32>(wave, instruction.operands[0], static_cast<uint32_t>(bits));
}

template <class K, bool Set>
void set_bit(Wave& wave, const Instruction& instruction) {
  using V = typename K::Value;
  V bit = V{1} << (read_scalar<U32>(wave, instruction.operands[1]) % K::width);
  V old = read_scalar<K>(wave, instruction.operands[0]);
  write_scalar<K>(wave, instruction.operands[0], Set ? old | bit : old & ~bit);
}

void add_bits(Table& table) {
  add_logic<U32>(table, "b32");
  add_logic<U64>(table, "b64");
  table["s_flbit_i32"] = table["s_cls_i32"] = scalar<I32, I32>([](int32_t a) { return leading_different(a); });
  table["s_flbit_i32_i64"] = table["s_cls_i32_i64"] = scalar<I32, I64>([](int64_t a) { return leading_different(a); });
  table["s_sext_i32_i8"] = scalar<I32, U32>([](uint32_t a) { return static_cast<int8_t>(a); });
  table["s_sext_i32_i16"] = scalar<I32, U32>([](uint32_t a) { return static_cast<int16_t>(a); });
  table["s_bitreplicate_b64_b32"] = scalar<U64, U32>([](uint32_t a) { return replicate(a); });
  table["s_pack_ll_b32_b16"] = scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return (a & 0xffff) | b << 16; });
  table["s_pack_lh_b32_b16"] =
      scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return (a & 0xffff) | (b & 0xffff0000); });
  table["s_pack_hh_b32_b16"] = scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000); });
  table["s_pack_hl_b32_b16"] = scalar<U32, U32, U32>([](uint32_t a, uint32_t b) { return a >> 16 | b << 16; });
  table["s_cmov_b32"] = [](Wave& w, const Instruction& i) { conditional_move(w, i, 32); };
  table["s_cmov_b64"] = [](Wave& w, const Instruction& i) { conditional_move(w, i, 64); };
  table["s_bitset0_b32"] = set_bit<U32, false>;
  table["s_bitset1_b32"] = set_bit<U32, true>;
  table["s_bitset0_b64"] = set_bit<U64, false>;
  table["s_bitset1_b64"] = set_bit<U64, true>;
}

template <class K, class Immediate>
void add_compares(Table& table, const std::string& type) {
  using V = typename K::Value;
  auto add = [&]<class F>(const std::string& name, F operation) {
    table["s_cmp_" + name + "_" + type] = scalar_compare<K, K>(operation);
    table["s_cmpk_" + name + "_" + type] = [](Wave& wave, const Instruction& instruction) {
      auto right = static_cast<V>(static_cast<Immediate>(immediate16(instruction)));
      wave.scc = F{}(read_scalar<K>(wave, instruction.operands[0]), right);
    };
  };
  add("eq", [](V a, V b) { return a == b; });
  add("lg", [](V a, V b) { return a != b; });
  add("gt", [](V a, V b) { return a > b; });
  add("ge", [](V a, V b) { return a >= b; });
  add("lt", [](V a, V b) { return a < b; });
  add("le", [](V a, V b) { return a <= b; });
}

void add_immediates(Table& table) {
  table["s_movk_i32"] = [](Wave& wave, const Instruction& i) {
    write_scalar<U32>(wave, i.operands[0], static_cast<uint32_t>(immediate16(i)));
  };
  table["s_cmovk_i32"] = [](Wave& wave, const Instruction& i) {
    if (wave.scc) write_scalar<U32>(wave, i.operands[0], static_cast<uint32_t>(immediate16(i)));
  };
  table["s_addk_i32"] = table["s_addk_co_i32"] = [](Wave& wave, const Instruction& i) {
    int64_t sum = int64_t{read_scalar<I32>(wave, i.operands[0])} + immediate16(i);
    wave.scc = sum != static_cast<int32_t>(sum);
    write_scalar<U32>(wave, i.operands[0], static_cast<uint32_t>(sum));
  };
  table["s_mulk_i32"] = [](Wave& wave, const Instruction& i) {
    uint32_t product = read_scalar<U32>(wave, i.operands[0]) * static_cast<uint32_t>(immediate16(i));
    write_scalar<U32>(wave, i.operands[0], product);
  };
}

}  // namespace

void add_scalar_integer(Table& table) {
  add_arithmetic(table);
  add_shifts(table);
  add_bits(table);
  add_compares<U32, uint16_t>(table, "u32");
  add_compares<I32, int16_t>(table, "i32");
  add_compares<U64, uint16_t>(table, "u64");
  add_immediates(table);
}

}  // namespace kiln::amdgcn_emulator
