// Arrays that a compiled graph takes and gives: elements in the host's memory, with their type and shape.
//
//   std::vector<float> x(8 * 784);
//   array(x, {8, 784})                          borrowed, read only
//   donated(state, {256})                       borrowed, and the run may write its result over it
//   OwnedArray::allocate(ElementType::kF32, {8, 784})
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kiln/client/gpu.h"
#include "kiln/client/launch_argument.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/result.h"
#include "kiln/dsl/types.h"

namespace kiln::client {

// The element type of a C++ type: float, double, bool, ints, f16, bf16 and the f8 of kiln/dsl/kernel.h.
template <class T>
constexpr dsl::ElementType element_of() {
  using enum dsl::ElementType;
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, float>) return kF32;
  if constexpr (std::is_same_v<Plain, double>) return kF64;
  if constexpr (std::is_same_v<Plain, bool>) return kI1;
  if constexpr (std::is_same_v<Plain, f16>) return kF16;
  if constexpr (std::is_same_v<Plain, bf16>) return kBF16;
  if constexpr (std::is_same_v<Plain, f8e4m3>) return kF8E4M3;
  if constexpr (std::is_same_v<Plain, f8e5m2>) return kF8E5M2;
  if constexpr (std::is_integral_v<Plain> && !std::is_same_v<Plain, bool>) {
    constexpr dsl::ElementType kInts[] = {kI8, kI16, kI32, kI64}, kUnsigned[] = {kU8, kU16, kU32, kU64};
    constexpr size_t kLog = sizeof(Plain) == 1 ? 0 : sizeof(Plain) == 2 ? 1 : sizeof(Plain) == 4 ? 2 : 3;
    return std::is_signed_v<Plain> ? kInts[kLog] : kUnsigned[kLog];
  }
  static_assert(std::is_arithmetic_v<Plain> || std::is_class_v<Plain>, "no element type of a graph is like this type");
}

// Where elements lie. It borrows them, unless `owner` keeps them.
struct ArrayView {
  static constexpr uint64_t kUnknownBytes = ~uint64_t{0};

  dsl::ElementType element = dsl::ElementType::kF32;
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};  // in elements, of any sign, 0 repeats; none: row-major
  const void* data = nullptr;         // of the element at index 0 of each axis
  // Behind `data`, as far as it is known; of arrays with strides nobody looks.
  uint64_t bytes = kUnknownBytes;
  // As an input: it is donated, and the run may write to it. As an output: it must be.
  bool writable = false;
  bool on_device = false;  // memory of the device that the graph is compiled for
  std::shared_ptr<const void> owner = nullptr;
};

// Elements of what has data() and size(), which must be as many as the shape has; or behind a pointer.
template <SizedArray T>
ArrayView array(const T& elements, std::vector<int64_t> shape) {
  using Element = std::remove_cvref_t<decltype(*elements.data())>;
  return {element_of<Element>(), std::move(shape), {}, elements.data(), elements.size() * sizeof(Element)};
}
template <class T>
ArrayView array(const T* elements, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  return {element_of<T>(), std::move(shape), std::move(strides), elements};
}
template <class T>
ArrayView array(const DeviceBuffer<T>& elements, std::vector<int64_t> shape) {
  ArrayView out = array(elements.data(), std::move(shape));
  out.bytes = elements.size() * sizeof(T);
  out.on_device = true;
  return out;
}
// The same, where the run may write: an input whose memory an output may take over, or an output.
template <SizedArray T>
  requires(!std::is_const_v<std::remove_reference_t<decltype(*std::declval<T&>().data())>>)
ArrayView donated(T& elements, std::vector<int64_t> shape) {
  ArrayView out = array(elements, std::move(shape));
  out.writable = true;
  return out;
}
template <class T>
ArrayView donated(const DeviceBuffer<T>& elements, std::vector<int64_t> shape) {
  ArrayView out = array(elements, std::move(shape));
  out.writable = true;
  return out;
}
template <class T>
ArrayView donated(T* elements, std::vector<int64_t> shape) {
  static_assert(!std::is_const_v<T>);
  ArrayView out = array(elements, std::move(shape));
  out.writable = true;
  return out;
}

// An array in row-major order that keeps its memory, which starts at a multiple of 64 bytes. Copies share it.
class OwnedArray {
 public:
  OwnedArray() = default;
  // Of whatever bytes. kOutOfMemory where there is not enough; `threads` as in LaunchOptions.
  static Result<OwnedArray> allocate(dsl::ElementType element, std::vector<int64_t> shape, int threads = 0);
  // Memory that `owner` keeps, if it is not null; else the caller does.
  OwnedArray(dsl::ElementType element, std::vector<int64_t> shape, void* data, std::shared_ptr<const void> owner)
      : element_(element), shape_(std::move(shape)), data_(data), owner_(std::move(owner)) {}

  dsl::ElementType element() const { return element_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t count() const;
  uint64_t bytes() const { return static_cast<uint64_t>(count() * dsl::info(element_).bytes); }
  void* data() const { return data_; }
  // Empty where T is of another type of element.
  template <class T>
  std::span<T> as() const {
    if (element_ != element_of<T>()) return {};
    return {static_cast<T*>(data_), static_cast<size_t>(count())};
  }

  operator ArrayView() const { return view(false); }  // NOLINT(google-explicit-constructor)
  // For a run that may write to it; copies of this array see that.
  ArrayView donate() const { return view(true); }

 private:
  ArrayView view(bool writable) const;

  dsl::ElementType element_ = dsl::ElementType::kF32;
  std::vector<int64_t> shape_;
  void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

}  // namespace kiln::client

namespace kiln {
using client::array;
using client::ArrayView;
using client::donated;
using client::OwnedArray;
}  // namespace kiln
