// Typed handles: the C++ compiler checks a launch against the kernel's signature.
#pragma once

#include <array>

#include "kiln/client/handle.h"
#include "kiln/client/launch_argument.h"

namespace kiln::client {

// A handle whose launch the C++ compiler checks against the kernel's signature, as launch_argument.h says.
template <class... Args>
class Function {
 public:
  Function() = default;
  explicit Function(UntypedFunction untyped) : untyped_(std::move(untyped)) {}

  // The grid comes from the kernel. One with an extent of 0 launches nothing, and succeeds.
  Result<void> operator()(const LaunchArgument<Args>&... args) const { return launch({}, args...); }
  Result<void> launch(const LaunchOptions& options, const LaunchArgument<Args>&... args) const {
    const std::array<Argument, sizeof...(Args)> arguments = {args.argument()...};
    return untyped_.launch(arguments, options);
  }
  Result<void> prepare(const LaunchArgument<Args>&... args) const {
    const std::array<Argument, sizeof...(Args)> arguments = {args.argument()...};
    return untyped_.prepare(arguments);
  }

  const UntypedFunction& untyped() const { return untyped_; }

 private:
  UntypedFunction untyped_;
};

}  // namespace kiln::client
