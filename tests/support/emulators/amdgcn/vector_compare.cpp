// Comparisons, whose results are masks, and selection by masks.
#include <map>

#include "vector.h"

namespace kiln::amdgcn_emulator {
namespace {

// v_cmp writes the mask's bits of active lanes and clears the others. v_cmpx writes EXEC, and on GFX9 its destination
// as well. RDNA's short form of v_cmpx has no destination: the sources come first.
template <class F, class A, class B, bool WritesExec>
void run_compare(Wave& wave, const Instruction& instruction) {
  const unsigned first = instruction.operands[0].kind == OperandKind::kScalar && instruction.operand_count == 3 ? 1 : 0;
  begin_vector(wave, instruction, first);
  Lanes<A> lefts;
  Lanes<B> rights;
  // Sources are counted from operand 1 by op_sel and DPP: without a destination all stand one earlier.
  const Instruction* placed = &instruction;
  Instruction shifted;
  if (first == 0) {
    shifted = instruction;
    shifted.operands[1] = instruction.operands[0];
    shifted.operands[2] = instruction.operands[1];
    placed = &shifted;
    if (instruction.has_dpp) wave.permuted_operand = 1;
  }
  const typename A::Bits* left = fetch<A>(wave, *placed, 1, lefts);
  const typename B::Bits* right = fetch<B>(wave, *placed, 2, rights);
  F operation{};
  uint64_t mask = 0;
  for (unsigned lane = 0; lane < wave.lanes; ++lane)
    mask |= uint64_t{operation(A::decode(left[lane]), B::decode(right[lane]))} << lane;
  mask &= wave.write_mask;
  if (first == 1) wave.set_mask_at(instruction.operands[0].index, mask);
  if (WritesExec) wave.set_mask_at(kExec, mask);
}

// Bits of v_cmp_class: sNaN, qNaN, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf.
template <class V>
unsigned class_of(V value, unsigned quiet_bit, bool subnormal) {
  bool negative = std::signbit(value);
  if (std::isnan(value)) return quiet_bit ? 1 : 0;
  if (std::isinf(value)) return negative ? 2 : 9;
  if (value == 0) return negative ? 5 : 6;
  if (subnormal) return negative ? 4 : 7;
  return negative ? 3 : 8;
}

bool in_class(float value, uint32_t classes) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return classes >> class_of(value, bits >> 22 & 1, (bits & 0x7f800000) == 0) & 1;
}
bool in_class(double value, uint32_t classes) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  return classes >> class_of(value, bits >> 51 & 1, (bits & 0x7ff0000000000000) == 0) & 1;
}
bool half_in_class(float value, uint32_t classes) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return classes >> class_of(value, bits >> 22 & 1, std::fabs(value) < 0x1p-14f) & 1;
}

template <class A, class B, class F>
void add(Table& table, const std::string& name, const std::string& type, F) {
  table["v_cmp_" + name + "_" + type] = &run_compare<F, A, B, false>;
  table["v_cmpx_" + name + "_" + type] = &run_compare<F, A, B, true>;
}

template <class K>
void add_integer(Table& table, const std::string& type) {
  using V = typename K::Value;
  add<K, K>(table, "f", type, [](V, V) { return false; });
  add<K, K>(table, "t", type, [](V, V) { return true; });
  add<K, K>(table, "lt", type, [](V a, V b) { return a < b; });
  add<K, K>(table, "eq", type, [](V a, V b) { return a == b; });
  add<K, K>(table, "le", type, [](V a, V b) { return a <= b; });
  add<K, K>(table, "gt", type, [](V a, V b) { return a > b; });
  add<K, K>(table, "ne", type, [](V a, V b) { return a != b; });
  add<K, K>(table, "ge", type, [](V a, V b) { return a >= b; });
}

template <class K>
void add_float(Table& table, const std::string& type) {
  using V = typename K::Value;
  add<K, K>(table, "f", type, [](V, V) { return false; });
  add<K, K>(table, "lt", type, [](V a, V b) { return a < b; });
  add<K, K>(table, "eq", type, [](V a, V b) { return a == b; });
  add<K, K>(table, "le", type, [](V a, V b) { return a <= b; });
  add<K, K>(table, "gt", type, [](V a, V b) { return a > b; });
  add<K, K>(table, "lg", type, [](V a, V b) { return a < b || a > b; });
  add<K, K>(table, "ge", type, [](V a, V b) { return a >= b; });
  add<K, K>(table, "o", type, [](V a, V b) { return a == a && b == b; });
  add<K, K>(table, "u", type, [](V a, V b) { return a != a || b != b; });
  add<K, K>(table, "nge", type, [](V a, V b) { return !(a >= b); });
  add<K, K>(table, "nlg", type, [](V a, V b) { return !(a < b || a > b); });
  add<K, K>(table, "ngt", type, [](V a, V b) { return !(a > b); });
  add<K, K>(table, "nle", type, [](V a, V b) { return !(a <= b); });
  add<K, K>(table, "neq", type, [](V a, V b) { return a != b; });
  add<K, K>(table, "nlt", type, [](V a, V b) { return !(a < b); });
  add<K, K>(table, "tru", type, [](V, V) { return true; });
  add<K, K>(table, "t", type, [](V, V) { return true; });
}

// D = mask ? second : first, with the mask in a third source or in VCC.
template <class K>
void select(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  uint64_t mask = instruction.operand_count > 3 ? mask_of(wave, instruction.operands[3]) : wave.vcc();
  Lanes<K> falses, trues, result;
  const uint32_t* if_false = fetch<K>(wave, instruction, 1, falses);
  const uint32_t* if_true = fetch<K>(wave, instruction, 2, trues);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) result[lane] = bit_of(mask, lane) ? if_true[lane] : if_false[lane];
  store<K>(wave, instruction, 0, result);
}

}  // namespace

void add_vector_compare(Table& table) {
  add_integer<U32>(table, "u32");
  add_integer<I32>(table, "i32");
  add_integer<U16>(table, "u16");
  add_integer<I16>(table, "i16");
  add_integer<U64>(table, "u64");
  add_integer<I64>(table, "i64");
  add_float<F32>(table, "f32");
  add_float<F16>(table, "f16");
  add_float<F64>(table, "f64");
  add<F32, U32>(table, "class", "f32", [](float a, uint32_t b) { return in_class(a, b); });
  add<F64, U32>(table, "class", "f64", [](double a, uint32_t b) { return in_class(a, b); });
  add<F16, U16>(table, "class", "f16", [](float a, uint32_t b) { return half_in_class(a, b); });
  table["v_cndmask_b32"] = select<U32>;
  table["v_cndmask_b16"] = select<U16>;
}

}  // namespace kiln::amdgcn_emulator
