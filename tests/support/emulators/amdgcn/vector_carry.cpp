// Additions with carries in masks, and products of 32 bits summed in 64.
#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

// D, carry out = operation(first, second, carry in). The carry's mask is operand 1, the carry in (if any) operand 4.
template <class F>
void run_carry(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction, 2);
  Lanes<U32> lefts, rights, result;
  const uint32_t* left = fetch<U32>(wave, instruction, 2, lefts);
  const uint32_t* right = fetch<U32>(wave, instruction, 3, rights);
  uint64_t carry_in = instruction.operand_count > 4 ? mask_of(wave, instruction.operands[4]) : 0;
  uint64_t carry_out = 0;
  F operation{};
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    int64_t sum = operation(int64_t{left[lane]}, int64_t{right[lane]}, int64_t{bit_of(carry_in, lane)});
    bool carry = sum < 0 || sum >> 32;
    result[lane] = static_cast<uint32_t>(sum);
    if (instruction.clamp && carry) result[lane] = sum < 0 ? 0 : ~uint32_t{0};
    carry_out |= uint64_t{carry} << lane;
  }
  wave.set_mask_at(instruction.operands[1].index, carry_out & wave.write_mask);
  store<U32>(wave, instruction, 0, result);
}

template <class F>
void add(Table& table, std::initializer_list<const char*> names, F) {
  for (const char* name : names) table[name] = run_carry<F>;
}

// v_mad_u64_u32 D, carry, a, b, c.
template <bool Signed>
void multiply_add(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction, 2);
  Lanes<U32> lefts, rights;
  Lanes<U64> addends, result;
  const uint32_t* left = fetch<U32>(wave, instruction, 2, lefts);
  const uint32_t* right = fetch<U32>(wave, instruction, 3, rights);
  const uint64_t* addend = fetch<U64>(wave, instruction, 4, addends);
  uint64_t carry_out = 0;
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    bool carry;
    if constexpr (Signed) {
      int64_t product = int64_t{static_cast<int32_t>(left[lane])} * static_cast<int32_t>(right[lane]);
      int64_t sum;
      carry = __builtin_add_overflow(product, static_cast<int64_t>(addend[lane]), &sum);
      result[lane] = static_cast<uint64_t>(sum);
    } else {
      carry = __builtin_add_overflow(uint64_t{left[lane]} * right[lane], addend[lane], &result[lane]);
    }
    carry_out |= uint64_t{carry} << lane;
  }
  wave.set_mask_at(instruction.operands[1].index, carry_out & wave.write_mask);
  store<U64>(wave, instruction, 0, result);
}

}  // namespace

void add_vector_carry(Table& table) {
  auto sum = [](int64_t a, int64_t b, int64_t carry) { return a + b + carry; };
  auto difference = [](int64_t a, int64_t b, int64_t carry) { return a - b - carry; };
  auto reversed = [](int64_t a, int64_t b, int64_t carry) { return b - a - carry; };
  add(table, {"v_add_co_u32", "v_addc_co_u32", "v_add_co_ci_u32"}, sum);
  add(table, {"v_sub_co_u32", "v_subb_co_u32", "v_sub_co_ci_u32"}, difference);
  add(table, {"v_subrev_co_u32", "v_subbrev_co_u32", "v_subrev_co_ci_u32"}, reversed);
  table["v_mad_u64_u32"] = table["v_mad_co_u64_u32"] = multiply_add<false>;
  table["v_mad_i64_i32"] = table["v_mad_co_i64_i32"] = multiply_add<true>;
}

}  // namespace kiln::amdgcn_emulator
