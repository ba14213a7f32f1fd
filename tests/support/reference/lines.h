// Ops along one axis. A line is the elements of an array along that axis, in logical order; reductions and scans take
// any associative combine, which need not commute, and several operands at once as one struct or tuple.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "reference/arrays.h"

namespace kiln::reference {

// ((x0 ∘ x1) ∘ x2) ∘ …; a line is never empty.
template <class T, class Combine>
T reduce(const std::vector<T>& line, Combine combine) {
  T out = line.front();
  for (size_t i = 1; i < line.size(); ++i) out = combine(out, line[i]);
  return out;
}

// Inclusive: element i is x0 ∘ … ∘ xi. Reversed it starts at the end, with the accumulated value still on the left:
// element i is ((x_last ∘ x_last-1) ∘ …) ∘ xi.
template <class T, class Combine>
std::vector<T> scan(std::vector<T> line, Combine combine, bool reverse = false) {
  if (reverse) std::reverse(line.begin(), line.end());
  for (size_t i = 1; i < line.size(); ++i) line[i] = combine(line[i - 1], line[i]);
  if (reverse) std::reverse(line.begin(), line.end());
  return line;
}

template <class T>
std::vector<T> line_at(const Array<T>& a, size_t axis, Shape index) {
  std::vector<T> out;
  for (index[axis] = 0; index[axis] < a.shape[axis]; ++index[axis]) out.push_back(a.at(index));
  return out;
}

// Each line becomes the line that `function` makes of it; all of those have one length.
template <class T, class Function>
auto map_lines(const Array<T>& a, size_t axis, Function function) {
  using Line = std::invoke_result_t<Function, const std::vector<T>&>;
  const Shape starts = with_extent(a.shape, axis, 1);
  std::vector<Line> lines;
  for (int64_t i = 0; i < count(starts); ++i) lines.push_back(function(line_at(a, axis, index_of(starts, i))));
  const auto extent = static_cast<int64_t>(lines.front().size());
  return generate<typename Line::value_type>(with_extent(a.shape, axis, extent), [&](Shape index) {
    const auto position = static_cast<size_t>(index[axis]);
    index[axis] = 0;
    return lines[static_cast<size_t>(offset(starts, index))][position];
  });
}

// Each line becomes the one value that `function` makes of it; the axis disappears.
template <class T, class Function>
auto reduce_lines(const Array<T>& a, size_t axis, Function function) {
  using Value = std::invoke_result_t<Function, const std::vector<T>&>;
  auto out = map_lines(a, axis, [&](const std::vector<T>& line) { return std::vector<Value>{function(line)}; });
  out.shape = without_axis(out.shape, axis);
  return out;
}

}  // namespace kiln::reference
