// A config: what a request chooses of a kernel for a target: the values of its constexprs, and
// schedule options.
#pragma once

#include <string_view>

#include "kiln/dsl/ir.h"
#include "kiln/target/schedule_options.h"

namespace kiln::dsl {

// The names of schedule options, which stand in a config beside the constexprs: kNumWarps is "num_warps".
#define KILN_SCHEDULE_OPTION(id, ...) using target::id;
#include "kiln/target/schedule_options.def"

bool is_schedule_option(std::string_view name);
// Error: what is allowed.
Result<void> check_schedule_option(std::string_view name, int64_t value);
// What a config says of an option, else the value that means none.
int64_t schedule_option(const ConstexprValues& config, std::string_view name);

// "cuda" of "cuda:sm_90a".
std::string_view target_family(std::string_view target);
// Whether the defaults for `name` ("cuda", or "cuda:sm_90a") are for a target.
bool defaults_apply(std::string_view name, std::string_view target);
// What is wrong with an entry of Kernel::target_defaults; empty when nothing is.
std::string target_defaults_problem(const Kernel& kernel, std::string_view target, const ConstexprValues& values);

// All constexprs by name, and the schedule options that are chosen: each as `values` says, else as the kernel's
// defaults for the target, the most particular first, else by the constexpr's default. Error for what is unknown or has
// no value. Targets without schedule options get none, so that they make no difference. `target` may be empty: of no
// family.
Result<ConstexprValues> complete_constexprs(const Kernel& kernel, const ConstexprValues& values,
                                            std::string_view target = {});

}  // namespace kiln::dsl
