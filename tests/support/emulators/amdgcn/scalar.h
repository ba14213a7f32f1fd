// Scalar instructions: operations on single values, some of which set SCC.
#pragma once

#include <type_traits>
#include <utility>

#include "kinds.h"
#include "semantics.h"

namespace kiln::amdgcn_emulator {

// A uniform operand's bits (vector.cpp), without modifiers.
uint64_t uniform_bits(const Wave& wave, const Operand& operand, Format format, unsigned width);

template <class K>
typename K::Value read_scalar(const Wave& wave, const Operand& operand) {
  return K::decode(static_cast<typename K::Bits>(uniform_bits(wave, operand, K::format, K::width)));
}

template <class K>
void write_scalar(Wave& wave, const Operand& operand, typename K::Bits bits) {
  if (operand.kind != OperandKind::kScalar) return wave.fail("no scalar register as destination");
  if (operand.index == kNull) return;
  if constexpr (K::width == 64)
    wave.set_scalar64(operand.index, bits);
  else
    wave.sgpr[operand.index] = static_cast<uint32_t>(bits);
}

// The 16 bits that SOPK and SOPP carry.
inline int32_t immediate16(const Instruction& instruction) { return static_cast<int16_t>(instruction.encoding); }

template <class F, bool SetsScc, class D, class... S, size_t... I>
void run_scalar_with(Wave& wave, const Instruction& instruction, std::index_sequence<I...>) {
  F operation{};
  auto value = [&] {
    if constexpr (std::is_invocable_v<F, Wave&, typename S::Value...>)
      return operation(wave, read_scalar<S>(wave, instruction.operands[1 + I])...);
    else
      return operation(read_scalar<S>(wave, instruction.operands[1 + I])...);
  }();
  auto bits = D::encode(static_cast<typename D::Value>(value), false);
  if constexpr (SetsScc) wave.scc = bits != 0;
  write_scalar<D>(wave, instruction.operands[0], bits);
}

template <class F, bool SetsScc, class D, class... S>
void run_scalar(Wave& wave, const Instruction& instruction) {
  run_scalar_with<F, SetsScc, D, S...>(wave, instruction, std::index_sequence_for<S...>());
}

// SCC stays, or the operation sets it.
template <class D, class... S, class F>
Execute scalar(F) {
  return &run_scalar<F, false, D, S...>;
}

// SCC tells whether the result is not zero.
template <class D, class... S, class F>
Execute scalar_nonzero(F) {
  return &run_scalar<F, true, D, S...>;
}

template <class F, class A, class B>
void run_scalar_compare(Wave& wave, const Instruction& instruction) {
  wave.scc = F{}(read_scalar<A>(wave, instruction.operands[0]), read_scalar<B>(wave, instruction.operands[1]));
}

template <class A, class B, class F>
Execute scalar_compare(F) {
  return &run_scalar_compare<F, A, B>;
}

}  // namespace kiln::amdgcn_emulator
