// Numbers combined two by two, by the kinds of reductions, scans, scatters and windows.
#pragma once

#include <limits>
#include <span>

#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::graph::evaluator {

// The kind as tiles have it.
constexpr dsl::ReduceKind tile_kind(ReduceKind kind) { return static_cast<dsl::ReduceKind>(kind); }
static_assert(tile_kind(ReduceKind::kXor) == dsl::ReduceKind::kXor &&
              tile_kind(ReduceKind::kProd) == dsl::ReduceKind::kProd);
constexpr dsl::ReduceKind tile_kind(ScatterKind kind) {
  switch (kind) {
    case ScatterKind::kMul:
      return dsl::ReduceKind::kProd;
    case ScatterKind::kMin:
      return dsl::ReduceKind::kMin;
    case ScatterKind::kMax:
      return dsl::ReduceKind::kMax;
    default:
      return dsl::ReduceKind::kSum;
  }
}
constexpr dsl::ReduceKind tile_kind(WindowKind kind) {
  return kind == WindowKind::kSum   ? dsl::ReduceKind::kSum
         : kind == WindowKind::kMax ? dsl::ReduceKind::kMax
                                    : dsl::ReduceKind::kMin;
}

// What changes nothing: of min and max of ints the type's ends, of a float type the infinity, or the greatest number
// where it has none.
template <class Lane>
uint64_t neutral(ElementType type, dsl::ReduceKind kind) {
  using T = typename Lane::Number;
  const bool is_min = kind == dsl::ReduceKind::kMin;
  if (is_min || kind == dsl::ReduceKind::kMax) {
    if constexpr (std::is_floating_point_v<T>) {
      const T infinity = std::numeric_limits<T>::infinity();
      return encode_own<Lane>(is_min ? infinity : -infinity);
    } else {
      if (type == ElementType::kI1) return is_min;
      return Lane::encode(is_min ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min());
    }
  }
  if (kind == dsl::ReduceKind::kProd) return Lane::encode(T{1});
  if (kind == dsl::ReduceKind::kAnd) return low_bits(~uint64_t{0}, dsl::info(type).bits);
  return 0;
}

// Numbers combined to the bits of an element: sums pairwise, the others in order; f16, bf16 and f8 in f32.
template <class Lane>
uint64_t combine_all(ElementType type, dsl::ReduceKind kind, std::span<const typename Lane::Number> numbers) {
  using T = typename Lane::Number;
  if (numbers.empty()) return neutral<Lane>(type, kind);
  if (kind == dsl::ReduceKind::kSum && std::is_floating_point_v<T>) return Lane::encode(pairwise_sum(numbers));
  T result = numbers[0];
  for (const T number : numbers.subspan(1)) result = combine_two(kind, result, number);
  return encode_combined<Lane>(kind, result);
}

}  // namespace kiln::graph::evaluator
