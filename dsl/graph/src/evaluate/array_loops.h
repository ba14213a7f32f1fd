// Loops over strided arrays: rows along the last axis, element by element.
#pragma once

#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "evaluate/machine.h"
#include "kiln/dsl/scalar_lanes.h"

namespace kiln::graph::evaluator {

using namespace dsl::scalar;

// Bytes of a lane's element in memory.
template <class Lane>
inline constexpr size_t kBytes = sizeof(typename Lane::Number);
template <>
inline constexpr size_t kBytes<BF16Lane> = 2;
template <>
inline constexpr size_t kBytes<F16Lane> = 2;
template <ElementType kType>
inline constexpr size_t kBytes<F8Lane<kType>> = 1;

template <size_t kSize>
uint64_t load(const std::byte* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, kSize);  // little-endian
  return bits;
}
template <size_t kSize>
void store(std::byte* at, uint64_t bits) {
  std::memcpy(at, &bits, kSize);
}
// function(std::integral_constant<size_t, bytes>) for elements of 1, 2, 4 or 8 bytes.
template <class Function>
void with_bytes(ElementType type, Function function) {
  switch (dsl::info(type).bytes) {
    case 1:
      return function(std::integral_constant<size_t, 1>());
    case 2:
      return function(std::integral_constant<size_t, 2>());
    case 4:
      return function(std::integral_constant<size_t, 4>());
    default:
      return function(std::integral_constant<size_t, 8>());
  }
}

inline int64_t count_of(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}
bool is_contiguous(const Array& array);
inline std::byte* bytes_of(Array& array) { return const_cast<std::byte*>(array.data); }  // of one made by own()

// Advances an index in row-major order; false behind the last one.
inline bool next_index(std::vector<int64_t>& index, std::span<const int64_t> shape) {
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

// A row of each of several arrays.
template <size_t kCount>
struct Rows {
  std::array<const std::byte*, kCount> data;
  std::array<int64_t, kCount> step;  // in bytes
};

// A function that somebody else keeps while it is called. Loops take it, and not a template's parameter, so that they
// are compiled once: for each of some hundreds of pairs of op and type they would be most of the evaluator's compile
// time.
template <class Signature>
class FunctionRef;
template <class... Args>
class FunctionRef<void(Args...)> {
 public:
  template <class Function>
  FunctionRef(const Function& function)
      : object_(&function),
        call_([](const void* object, Args... args) { (*static_cast<const Function*>(object))(args...); }) {}
  void operator()(Args... args) const { call_(object_, args...); }

 private:
  const void* object_;
  void (*call_)(const void* object, Args... args);
};

// function(rows, count) for each row of one to four arrays of one shape, in row-major order. A scalar is a row of one.
template <size_t kCount>
void for_rows(const Extents& shape, const std::array<const Array*, kCount>& arrays,
              FunctionRef<void(const Rows<kCount>& rows, int64_t count)> function);

// Elements as numbers of the lane, in row-major order.
template <class Lane>
std::vector<typename Lane::Number> numbers(const Array& array) {
  std::vector<typename Lane::Number> out;
  out.reserve(static_cast<size_t>(array.count()));
  for_rows<1>(array.shape, {&array}, [&](const Rows<1>& row, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out.push_back(Lane::decode(load<kBytes<Lane>>(row.data[0] + i * row.step[0])));
  });
  return out;
}
// Elements as another type of number: ints as int64, floats as f32 or f64.
template <class T>
std::vector<T> numbers_as(const Array& array) {
  return with_element(array.element, [&](auto lane) {
    const auto own_type = numbers<decltype(lane)>(array);
    return std::vector<T>(own_type.begin(), own_type.end());
  });
}
std::vector<uint64_t> all_bits(const Array& array);
// Of a contiguous array: all of its elements, or one.
void store_all(Array& out, std::span<const uint64_t> bits);
template <class Lane>
void store_bits(Array& out, int64_t place, uint64_t bits) {
  store<kBytes<Lane>>(bytes_of(out) + place * static_cast<int64_t>(kBytes<Lane>), bits);
}

Array contiguous(const Array& array);
// Copies elements into a place of the same shape.
void copy(const Array& from, Array& to);
Array converted(const Array& array, ElementType to);
// --- views ---
Array reshaped(const Array& array, Extents shape);  // copies where strides do not allow it
Array permuted(const Array& array, std::span<const int64_t> order);
Array broadcast_view(const Array& array, const Extents& shape);
Array sliced(const Array& array, size_t axis, int64_t start, int64_t count, int64_t step);
Array dropped(const Array& array, size_t axis, int64_t place);  // one place of an axis, which disappears
// Axes 0 … rank-1 with those given moved behind the others, in the order given.
std::vector<int64_t> moved_last(size_t rank, std::span<const int64_t> axes);
std::vector<int64_t> inverse(std::span<const int64_t> order);

}  // namespace kiln::graph::evaluator
