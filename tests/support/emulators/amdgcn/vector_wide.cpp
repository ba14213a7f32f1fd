// What gfx1250 has beside gfx12 for vectors: integers of 64 bits, sums that are compared at once, bf16 as a source.
#include <algorithm>
#include <cmath>

#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

template <class K>
void add_wide_extrema(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["v_min_" + type] = vector<K, K, K>([](V a, V b) { return std::min(a, b); });
  table["v_max_" + type] = vector<K, K, K>([](V a, V b) { return std::max(a, b); });
}

template <class K>
void add_compared_sums(Table& table, const std::string& type) {
  using V = typename K::Value;
  table["v_add_min_" + type] =
      vector<K, K, K, K>([](const Wave& w, V a, V b, V c) { return std::min(clamped_sum<K>(w, a, b), c); });
  table["v_add_max_" + type] =
      vector<K, K, K, K>([](const Wave& w, V a, V b, V c) { return std::max(clamped_sum<K>(w, a, b), c); });
}

}  // namespace

void add_vector_wide(Table& table) {
  table["v_add_nc_u64"] = vector<U64, U64, U64>([](uint64_t a, uint64_t b) { return a + b; });
  table["v_sub_nc_u64"] = vector<U64, U64, U64>([](uint64_t a, uint64_t b) { return a - b; });
  table["v_mul_u64"] = vector<U64, U64, U64>([](uint64_t a, uint64_t b) { return a * b; });
  table["v_mad_nc_u64_u32"] =
      vector<U64, U32, U32, U64>([](uint32_t a, uint32_t b, uint64_t c) { return uint64_t{a} * b + c; });
  table["v_mad_nc_i64_i32"] = vector<U64, I32, I32, U64>(
      [](int32_t a, int32_t b, uint64_t c) { return static_cast<uint64_t>(int64_t{a} * b) + c; });
  table["v_mad_u32"] = vector<U32, U32, U32, U32>([](uint32_t a, uint32_t b, uint32_t c) { return a * b + c; });
  add_wide_extrema<U64>(table, "u64");
  add_wide_extrema<I64>(table, "i64");
  add_compared_sums<U32>(table, "u32");
  add_compared_sums<I32>(table, "i32");
  table["v_cvt_f32_bf16"] = vector<F32, BF16>([](float a) { return a; });
  table["v_tanh_f32"] = vector<F32, F32>([](float a) { return std::tanh(a); });
  table["v_tanh_f16"] = vector<F16, F16>([](float a) { return std::tanh(a); });
}

}  // namespace kiln::amdgcn_emulator
