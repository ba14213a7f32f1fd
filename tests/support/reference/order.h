// What goes before what: one total preorder for sort, topk, arg* and searchsorted, in which NaN is the greatest, all
// NaNs are equal, and so are the zeros. All functions take one line of elements and give positions in it.
#pragma once

#include <cstddef>
#include <vector>

#include "reference/types.h"

namespace kiln::reference {

bool before(Type type, Bits a, Bits b);

enum class Predicate : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
// `cmp`: floats ordered, so false where one is NaN, but for ne.
bool compare(Predicate predicate, Type type, Bits a, Bits b);

// The stable order: sorted[i] = keys[order[i]]. Descending is stable too: equal keys keep their order.
std::vector<size_t> sort_order(Type type, const std::vector<Bits>& keys, bool descending = false);
// The k largest, largest first, or the k smallest, smallest first; ties to the lowest position.
std::vector<size_t> topk(Type type, const std::vector<Bits>& keys, size_t k, bool largest = true);
// NaN is the extreme of both; ties take the lowest position.
size_t argmax(Type type, const std::vector<Bits>& values);
size_t argmin(Type type, const std::vector<Bits>& values);

// Counts of the ints 0…bins-1; others are ignored.
std::vector<int64_t> histogram(Type type, const std::vector<Bits>& values, size_t bins);

// Into sorted keys: how many are before the value (left), or not after it (right).
size_t searchsorted(Type type, const std::vector<Bits>& sorted, Bits value, bool right = false);

// values[positions[i]]
template <class T>
std::vector<T> take(const std::vector<T>& values, const std::vector<size_t>& positions) {
  std::vector<T> out;
  out.reserve(positions.size());
  for (const size_t position : positions) out.push_back(values[position]);
  return out;
}

}  // namespace kiln::reference
