#include "reference/order.h"

#include <algorithm>
#include <numeric>

#include "reference/formats.h"
#include "reference/ints.h"

namespace kiln::reference {
namespace {

// The first position that no other one beats.
template <class Beats>
size_t first_extreme(Type type, const std::vector<Bits>& values, Beats beats) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (is_nan(type, values[best])) break;
    if (is_nan(type, values[i]) || beats(values[i], values[best])) best = i;
  }
  return best;
}

}  // namespace

bool before(Type type, Bits a, Bits b) {
  if (!is_float(type)) return int_value(type, a) < int_value(type, b);
  if (is_nan(type, a)) return false;
  return is_nan(type, b) || to_real(type, a) < to_real(type, b);
}

bool compare(Predicate predicate, Type type, Bits a, Bits b) {
  if (is_nan(type, a) || is_nan(type, b)) return predicate == Predicate::kNe;
  const bool less = before(type, a, b), greater = before(type, b, a);
  switch (predicate) {
    case Predicate::kEq:
      return !less && !greater;
    case Predicate::kNe:
      return less || greater;
    case Predicate::kLt:
      return less;
    case Predicate::kLe:
      return !greater;
    case Predicate::kGt:
      return greater;
    case Predicate::kGe:
      return !less;
  }
  return false;
}

std::vector<size_t> sort_order(Type type, const std::vector<Bits>& keys, bool descending) {
  std::vector<size_t> out(keys.size());
  std::iota(out.begin(), out.end(), size_t{0});
  std::sort(out.begin(), out.end(), [&](size_t i, size_t j) {
    const Bits first = keys[descending ? j : i], second = keys[descending ? i : j];
    if (before(type, first, second)) return true;
    return !before(type, second, first) && i < j;  // equal keys by position, which makes it stable
  });
  return out;
}

std::vector<size_t> topk(Type type, const std::vector<Bits>& keys, size_t k, bool largest) {
  std::vector<size_t> out = sort_order(type, keys, largest);
  out.resize(std::min(k, out.size()));
  return out;
}

size_t argmax(Type type, const std::vector<Bits>& values) {
  return first_extreme(type, values, [&](Bits a, Bits b) { return before(type, b, a); });
}

size_t argmin(Type type, const std::vector<Bits>& values) {
  return first_extreme(type, values, [&](Bits a, Bits b) { return before(type, a, b); });
}

std::vector<int64_t> histogram(Type type, const std::vector<Bits>& values, size_t bins) {
  std::vector<int64_t> out(bins, 0);
  for (const Bits bits : values) {
    const Wide value = int_value(type, bits);
    if (value >= 0 && value < static_cast<Wide>(bins)) ++out[static_cast<size_t>(value)];
  }
  return out;
}

size_t searchsorted(Type type, const std::vector<Bits>& sorted, Bits value, bool right) {
  size_t out = 0;
  for (const Bits key : sorted) {
    if (right ? !before(type, value, key) : before(type, key, value)) ++out;
  }
  return out;
}

}  // namespace kiln::reference
