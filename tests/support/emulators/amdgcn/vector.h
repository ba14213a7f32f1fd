// Vector instructions: sources are fetched as rows of 64 values with their modifiers applied, an operation computes
// each lane, and the result is stored under the mask. The families (vector_*.cpp) supply operations only.
#pragma once

#include <cfenv>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kinds.h"
#include "semantics.h"

namespace kiln::amdgcn_emulator {

template <class K>
using Lanes = std::array<typename K::Bits, kMaxLanes>;

// The values of an operand in each lane: the register itself where nothing changes it, otherwise `buffer`.
template <class K>
const typename K::Bits* fetch(Wave& wave, const Instruction& instruction, unsigned operand, Lanes<K>& buffer);

// Writes a result to an operand's register in the lanes of the write mask.
template <class K>
void store(Wave& wave, const Instruction& instruction, unsigned operand, Lanes<K>& result);

// A mask of lanes as a source: scalar registers, or a constant.
uint64_t mask_of(const Wave& wave, const Operand& operand);

// Sets the write mask: EXEC, less the lanes that DPP disables. `first` is the operand that DPP permutes.
void begin_vector(Wave& wave, const Instruction& instruction, unsigned first = 1);

// Rounds as MODE says while it lives; costs nothing in the usual mode.
class RoundingScope {
 public:
  RoundingScope(const Wave& wave, unsigned width) {
    if (wave.mode & (kModeRound32 | kModeRound64)) [[unlikely]] {
      constexpr int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
      changed_ = true;
      std::fesetround(modes[static_cast<int>(rounding_of(wave, width))]);
    }
  }
  ~RoundingScope() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  bool changed_ = false;
};

void apply_output_modifiers(const Wave& wave, const Instruction& instruction, Lanes<F32>& result, Format format);
void apply_output_modifiers(const Wave& wave, const Instruction& instruction, Lanes<F64>& result, Format format);

// An operation that computes with one lane, with or without the wave's state.
template <class F, class... V>
auto apply(F operation, const Wave& wave, V... values) {
  if constexpr (std::is_invocable_v<F, const Wave&, V...>)
    return operation(wave, values...);
  else
    return operation(values...);
}

// A sum of at most 32 bits: it wraps, unless the instruction's `clamp` saturates it.
template <class K>
typename K::Value clamped_sum(const Wave& wave, typename K::Value a, typename K::Value b) {
  return static_cast<typename K::Value>(K::encode(int64_t{a} + b, wave.instruction->clamp));
}

// Halves that are not rounded to nearest are rounded from what was computed, in software.
template <class D>
bool rounds_otherwise(const Wave& wave) {
  return D::format == Format::kF16 && rounding_of(wave, 16) != Rounding::kNearestEven;
}

template <class D, class F, class... S, size_t... I>
void compute(Wave& wave, const Instruction& instruction, unsigned destination, unsigned first,
             std::index_sequence<I...>) {
  std::tuple<Lanes<S>...> buffers;
  std::array<const void*, sizeof...(S)> rows = {
      static_cast<const void*>(fetch<S>(wave, instruction, first + I, std::get<I>(buffers)))...};
  Lanes<D> result;
  F operation{};
  const unsigned lanes = wave.lanes;
  const bool clamp = instruction.clamp;
  RoundingScope rounding(wave, D::width);
  auto source = [&]<class K>(K, size_t index, unsigned lane) {
    return K::decode(static_cast<const typename K::Bits*>(rows[index])[lane]);
  };
  for (unsigned lane = 0; lane < lanes; ++lane) {
    auto value = apply(operation, wave, source(S(), I, lane)...);
    typename D::Bits bits = D::encode(value, clamp);
    // The default NaN is positive, unlike the host's; an operation may say that it chooses its own.
    if constexpr (D::is_float && (S::is_float && ...) && !requires { typename F::ChoosesNans; }) {
      bool made = value != value;
      ((made &= source(S(), I, lane) == source(S(), I, lane)), ...);
      bits = made ? D::default_nan : bits;
    }
    result[lane] = bits;
  }
  if (rounds_otherwise<D>(wave)) [[unlikely]]
    for (unsigned lane = 0; lane < lanes; ++lane)
      result[lane] = static_cast<typename D::Bits>(encode_small(
          static_cast<double>(apply(operation, wave, source(S(), I, lane)...)), kHalf, rounding_of(wave, 16)));
  if constexpr (D::is_float) apply_output_modifiers(wave, instruction, result, D::format);
  store<D>(wave, instruction, destination, result);
}

// D = operation(S...): the destination is operand 0, the sources follow.
template <class F, class D, class... S>
void run_vector(Wave& wave, const Instruction& instruction) {
  begin_vector(wave, instruction);
  compute<D, F, S...>(wave, instruction, 0, 1, std::index_sequence_for<S...>());
}

template <class D, class... S, class F>
Execute vector(F) {
  return &run_vector<F, D, S...>;
}

// D = operation(S..., D): the decoder repeats the destination as the last source.
template <class D, class... S, class F>
Execute accumulating(F) {
  return &run_vector<F, D, S..., D>;
}

}  // namespace kiln::amdgcn_emulator
