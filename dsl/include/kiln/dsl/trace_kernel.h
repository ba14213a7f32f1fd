// Kernels whose parameters are known only at run time: what a program writes that writes kernels. Authors have kernel()
// of kernel.h, which checks their types.
#pragma once

#include <functional>
#include <source_location>
#include <span>
#include <string>

#include "kiln/dsl/kernel.h"

namespace kiln::dsl {

struct NamedParam {
  std::string name;       // of a Const "BM", or "BM=128" with a default
  bool is_const = false;  // a Const; else of `type`
  Type type = {};         // a scalar, or a scalar pointer
  bool readonly = false;  // a pointer that the kernel does not store through
};

namespace detail {
struct Session;
}

// By position among the parameters; of a body that is being traced.
class TracedParams {
 public:
  explicit TracedParams(const detail::Session& session) : session_(session) {}
  lang::Value value(size_t index) const;
  lang::Const constant(size_t index) const;  // of a Const

 private:
  const detail::Session& session_;
};

// Runs the body once, now, with the functions of builder.h; the kernel, or what was wrong with it.
Result<Kernel> trace_kernel(std::string_view name, std::span<const NamedParam> params,
                            const std::function<void(const TracedParams&)>& body,
                            std::source_location loc = std::source_location::current());

}  // namespace kiln::dsl
