// Row-major arrays of any rank, and the ops that only move elements. Each op says where an element of the result comes
// from; `generate` does the rest. Use uint8_t for booleans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kiln::reference {

using Shape = std::vector<int64_t>;  // also an index

int64_t count(const Shape& shape);
int64_t offset(const Shape& shape, const Shape& index);
Shape index_of(const Shape& shape, int64_t offset);
Shape with_extent(Shape shape, size_t axis, int64_t extent);
Shape without_axis(Shape shape, size_t axis);
Shape with_axis(Shape shape, size_t axis, int64_t extent);  // inserted before `axis`

template <class T>
struct Array {
  Shape shape;
  std::vector<T> data;

  const T& at(const Shape& index) const { return data[static_cast<size_t>(offset(shape, index))]; }
  bool operator==(const Array&) const = default;
};

// element(index) for every index.
template <class T, class Element>
Array<T> generate(const Shape& shape, Element element) {
  Array<T> out{shape, {}};
  const int64_t size = count(shape);
  for (int64_t i = 0; i < size; ++i) out.data.push_back(element(index_of(shape, i)));
  return out;
}

// The array 0, 1, 2, …
template <class T>
Array<T> counting(const Shape& shape) {
  return generate<T>(shape, [&](const Shape& index) { return static_cast<T>(offset(shape, index)); });
}

template <class T>
Array<T> reshape(const Array<T>& a, const Shape& shape) {
  return {shape, a.data};
}

template <class T>
Array<T> expand_dims(const Array<T>& a, size_t axis) {
  return {with_axis(a.shape, axis, 1), a.data};
}

// Axes of extent 1 repeat.
template <class T>
Array<T> broadcast(const Array<T>& a, const Shape& shape) {
  return generate<T>(shape, [&](Shape index) {
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (a.shape[axis] == 1) index[axis] = 0;
    }
    return a.at(index);
  });
}

// Axis i of the result is axis order[i] of the operand.
template <class T>
Array<T> permute(const Array<T>& a, const std::vector<size_t>& order) {
  Shape shape(order.size());
  for (size_t i = 0; i < order.size(); ++i) shape[i] = a.shape[order[i]];
  return generate<T>(shape, [&](const Shape& index) {
    Shape source(order.size());
    for (size_t i = 0; i < order.size(); ++i) source[order[i]] = index[i];
    return a.at(source);
  });
}

template <class T>
Array<T> cat(const Array<T>& a, const Array<T>& b, size_t axis) {
  const int64_t border = a.shape[axis];
  return generate<T>(with_extent(a.shape, axis, border + b.shape[axis]), [&](Shape index) {
    if (index[axis] < border) return a.at(index);
    index[axis] -= border;
    return b.at(index);
  });
}

// Stacks two arrays along a new last axis of extent 2.
template <class T>
Array<T> join(const Array<T>& a, const Array<T>& b) {
  return generate<T>(with_axis(a.shape, a.shape.size(), 2), [&](Shape index) {
    const bool second = index.back() == 1;
    index.pop_back();
    return second ? b.at(index) : a.at(index);
  });
}

// Undoes join.
template <class T>
std::pair<Array<T>, Array<T>> split(const Array<T>& a) {
  const auto half = [&](int64_t which) {
    return generate<T>(without_axis(a.shape, a.shape.size() - 1), [&](Shape index) {
      index.push_back(which);
      return a.at(index);
    });
  };
  return {half(0), half(1)};
}

// a0 b0 a1 b1 … along the last axis.
template <class T>
Array<T> interleave(const Array<T>& a, const Array<T>& b) {
  const size_t last = a.shape.size() - 1;
  return generate<T>(with_extent(a.shape, last, 2 * a.shape[last]), [&](Shape index) {
    const bool second = index[last] % 2 == 1;
    index[last] /= 2;
    return second ? b.at(index) : a.at(index);
  });
}

// Elements start, start+step, … below end, axis by axis.
template <class T>
Array<T> slice(const Array<T>& a, const Shape& starts, const Shape& ends, Shape steps = {}) {
  steps.resize(starts.size(), 1);
  Shape shape(starts.size());
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = (ends[i] - starts[i] + steps[i] - 1) / steps[i];
  return generate<T>(shape, [&](Shape index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] = starts[i] + index[i] * steps[i];
    return a.at(index);
  });
}

template <class T>
Array<T> flip(const Array<T>& a, size_t axis) {
  return generate<T>(a.shape, [&](Shape index) {
    index[axis] = a.shape[axis] - 1 - index[axis];
    return a.at(index);
  });
}

// The result has the shape of the indices; along `axis` an index says where to read.
template <class T, class Index>
Array<T> gather(const Array<T>& source, const Array<Index>& indices, size_t axis) {
  return generate<T>(indices.shape, [&](Shape index) {
    index[axis] = static_cast<int64_t>(indices.at(index));
    return source.at(index);
  });
}

}  // namespace kiln::reference
