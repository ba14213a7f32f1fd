// What a typed launch takes for each parameter. All else the compiler refuses, with a sentence.
//
//   int parameter     an integer no value of which it lacks: an int for i32 and i64, no size_t for i32, no float
//   float parameter   a float that is no wider: 2.0f for f32, neither 2.0 nor 2
//   i1                a bool
//   Ptr<T>            an array of T: std::vector, std::span, DeviceBuffer, all that has data() and size(), or a C
//                     array; or a bare pointer, of which nobody knows how many elements lie behind it
//
// It is C++'s own rule of narrowing, but that constants make no exception: what is exchanged or cut short is seen.
#pragma once

#include <cstring>
#include <limits>
#include <ranges>
#include <type_traits>

#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/kernel.h"

namespace kiln::client {

using dsl::Argument;

// An array that says where it lies and how many elements it has.
template <class T>
concept SizedArray = requires(const T& array) {
  requires std::is_pointer_v<decltype(array.data())>;
  { array.size() } -> std::convertible_to<size_t>;
};

// A C++ value as a launch argument, of whatever kernel: a scalar, a pointer (of an extent that nobody knows), or an
// array.
template <class T>
Argument to_argument(const T& value) {
  Argument out;
  // The kernel's signature says whether it writes; the bytes behind a pointer to const are only read.
  const auto memory = [](const void* pointer) { return const_cast<void*>(pointer); };
  if constexpr (SizedArray<T>) {
    out = {memory(value.data()), static_cast<int64_t>(value.size()), 0};
  } else if constexpr (std::is_array_v<T>) {
    out = {memory(value), static_cast<int64_t>(std::extent_v<T>), 0};
  } else if constexpr (std::is_pointer_v<T>) {
    out = {memory(value), dsl::kUnknownExtent, 0};
  } else {
    static_assert(sizeof(T) <= sizeof out.bits && std::is_trivially_copyable_v<T>);
    std::memcpy(&out.bits, &value, sizeof value);
  }
  return out;
}

namespace detail {

template <class T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

// Whether every value of T is one of To; of two ints or two floats.
template <class To, class T>
inline constexpr bool kHolds =
    std::numeric_limits<T>::digits <= std::numeric_limits<To>::digits && (std::is_signed_v<To> || !std::is_signed_v<T>);

template <class To, class T>
Argument scalar_argument(const T& value) {
  constexpr bool kSame = std::is_same_v<To, T>;
  constexpr bool kNumbers = kIsNumber<To> && kIsNumber<T>;
  constexpr bool kToFloat = std::is_floating_point_v<To>, kIsFloat = std::is_floating_point_v<T>;
  static_assert(
      kSame || kNumbers,
      "an i1 parameter takes a bool, f16, bf16 and f8 parameters a kiln::f16 and so on, and the others numbers");
  static_assert(!kNumbers || kToFloat || !kIsFloat, "a float for an int parameter: are two arguments exchanged?");
  static_assert(!kNumbers || !kToFloat || kIsFloat,
                "an int for a float parameter: are two arguments exchanged? Write 2.0f, or float(n)");
  static_assert(!kNumbers || kToFloat != kIsFloat || kHolds<To, T>,
                "a narrowing launch, of a type with values that the parameter's type lacks: write int32_t(n) for a "
                "size_t, 2.0f for 2.0, 7u for an unsigned 7");
  return to_argument(static_cast<To>(value));
}

template <class To, class T>
Argument pointer_argument(T&& value) {
  using Given = std::remove_cvref_t<T>;
  constexpr bool kIsArray = SizedArray<Given>;
  if constexpr (kIsArray) {
    static_assert(std::is_lvalue_reference_v<T> || std::ranges::enable_borrowed_range<Given>,
                  "a temporary array is gone before a GPU has run the kernel: give it a name");
    constexpr bool kFits = std::is_convertible_v<decltype(value.data()), To>;
    static_assert(kFits,
                  "an array of other elements than the Ptr parameter's, or a const one where the kernel may write");
    return to_argument(value);
  } else if constexpr (std::is_array_v<std::remove_reference_t<T>>) {
    static_assert(std::is_convertible_v<T, To>,
                  "an array of other elements than the Ptr parameter's, or a const one where the kernel may write");
    return to_argument(value);
  } else {
    constexpr bool kFits = std::is_convertible_v<T, To>;
    static_assert(kFits,
                  "a Ptr parameter takes an array (std::vector, std::span, DeviceBuffer) of its elements or a pointer "
                  "to them, const where the kernel only reads");
    if constexpr (kFits) return to_argument(static_cast<To>(std::forward<T>(value)));
    return {};
  }
}

}  // namespace detail

// An argument for a parameter of a kernel's signature; lives as long as the call.
template <class Param>
class LaunchArgument {
 public:
  template <class T>
    requires(!std::same_as<std::remove_cvref_t<T>, LaunchArgument>)
  LaunchArgument(T&& value)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : argument_(convert(std::forward<T>(value))) {}

  const Argument& argument() const { return argument_; }

 private:
  template <class T>
  static Argument convert(T&& value) {
    using To = dsl::launch_type_t<Param>;
    if constexpr (std::is_pointer_v<To>) {
      return detail::pointer_argument<To>(std::forward<T>(value));
    } else {
      return detail::scalar_argument<To>(value);
    }
  }

  Argument argument_;
};

}  // namespace kiln::client
