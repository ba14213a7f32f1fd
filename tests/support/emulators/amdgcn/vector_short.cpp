// Vector integer instructions of 16 bits.
#include <algorithm>

#include "vector.h"

namespace kiln::amdgcn_emulator {

void add_vector_short(Table& table) {
  table["v_add_u16"] = table["v_add_nc_u16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return a + b; });
  table["v_sub_u16"] = table["v_sub_nc_u16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return a - b; });
  table["v_subrev_u16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return b - a; });
  table["v_add_i16"] = table["v_add_nc_i16"] = vector<I16, I16, I16>([](int16_t a, int16_t b) { return a + b; });
  table["v_sub_i16"] = table["v_sub_nc_i16"] = vector<I16, I16, I16>([](int16_t a, int16_t b) { return a - b; });
  table["v_mul_lo_u16"] =
      vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(uint32_t{a} * b); });
  table["v_mad_u16"] = table["v_mad_legacy_u16"] = vector<U16, U16, U16, U16>(
      [](uint16_t a, uint16_t b, uint16_t c) { return static_cast<int64_t>(uint64_t{a} * b + c); });
  table["v_mad_i16"] = table["v_mad_legacy_i16"] =
      vector<I16, I16, I16, I16>([](int16_t a, int16_t b, int16_t c) { return int64_t{a} * b + c; });
  table["v_mad_u32_u16"] =
      vector<U32, U16, U16, U32>([](uint16_t a, uint16_t b, uint32_t c) { return int64_t{a} * b + c; });
  table["v_mad_i32_i16"] =
      vector<I32, I16, I16, I32>([](int16_t a, int16_t b, int32_t c) { return int64_t{a} * b + c; });
  table["v_lshlrev_b16"] =
      vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(uint32_t{b} << (a & 15)); });
  table["v_lshrrev_b16"] =
      vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(b >> (a & 15)); });
  table["v_ashrrev_i16"] =
      vector<I16, U16, I16>([](uint16_t a, int16_t b) { return static_cast<int16_t>(b >> (a & 15)); });
  table["v_min_u16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return std::min(a, b); });
  table["v_max_u16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return std::max(a, b); });
  table["v_min_i16"] = vector<I16, I16, I16>([](int16_t a, int16_t b) { return std::min(a, b); });
  table["v_max_i16"] = vector<I16, I16, I16>([](int16_t a, int16_t b) { return std::max(a, b); });
  table["v_and_b16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a & b); });
  table["v_or_b16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a | b); });
  table["v_xor_b16"] = vector<U16, U16, U16>([](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a ^ b); });
  table["v_not_b16"] = vector<U16, U16>([](uint16_t a) { return static_cast<uint16_t>(~a); });
  table["v_mov_b16"] = vector<U16, U16>([](uint16_t a) { return a; });
}

}  // namespace kiln::amdgcn_emulator
