// Constants in: a kernel over constexprs becomes concrete IR for one config.
#pragma once

#include "kiln/dsl/config.h"
#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Replaces constexprs by `values` (their defaults where absent) and hints of loops by the schedule option num_stages,
// checks `require` and every type again, drops `require`, turns facts into constants (kOne) and `assume` ops, and
// applies the kernel option `contract`. The result mentions no constexpr but keeps the list; it is canonical, and the
// value of every `constant` in it is a Literal. Errors name the config and the source line; code kInvalidArgument for
// values that are missing or unknown and for a `require` that fails, kVerifyFailed for ill-typed IR.
Result<Kernel> instantiate(const Kernel& kernel, const ConstexprValues& values, const Facts& facts);

// The grid for a launch, from the concrete IR and the scalar arguments (by parameter; absent for pointers). Checks the
// limits: axis 0 in 0…2^31-1, the others in 0…65535. An extent of 0 launches nothing, and is an error where the
// expression has a negative argument: cdiv rounds small ones up to 0. `kernel` names parameters in errors.
Result<std::array<uint32_t, 3>> evaluate_grid(const std::array<Expr, 3>& grid, const Bindings& bindings,
                                              const Kernel* kernel = nullptr);

}  // namespace kiln::dsl
