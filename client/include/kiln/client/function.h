// Typed handles: the C++ compiler checks a launch against the kernel's signature.
#pragma once

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kiln/client/handle.h"
#include "kiln/dsl/kernel.h"

namespace kiln::client {

// A C++ value as a launch argument; of a pointer the extent is unknown.
template <class T>
Argument to_argument(T value) {
  Argument out;
  if constexpr (std::is_pointer_v<T>) {
    // The kernel's signature says whether it writes; the bytes behind a pointer to const are only read.
    out.data = const_cast<void*>(static_cast<const void*>(value));
    out.extent = dsl::kUnknownExtent;
  } else {
    static_assert(sizeof(T) <= sizeof out.bits && std::is_trivially_copyable_v<T>);
    std::memcpy(&out.bits, &value, sizeof value);
  }
  return out;
}

// A handle whose launch the C++ compiler checks against the kernel's signature.
template <class... Args>
class Function {
 public:
  Function() = default;
  explicit Function(UntypedFunction untyped) : untyped_(std::move(untyped)) {}

  // The grid comes from the kernel.
  Result<void> operator()(dsl::launch_type_t<Args>... args) const { return launch({}, args...); }
  Result<void> launch(const LaunchOptions& options, dsl::launch_type_t<Args>... args) const {
    const std::array<Argument, sizeof...(Args)> arguments = {to_argument(args)...};
    return untyped_.launch(arguments, options);
  }
  Result<void> prepare(dsl::launch_type_t<Args>... args) const {
    const std::array<Argument, sizeof...(Args)> arguments = {to_argument(args)...};
    return untyped_.prepare(arguments);
  }

  const UntypedFunction& untyped() const { return untyped_; }

 private:
  UntypedFunction untyped_;
};

}  // namespace kiln::client
