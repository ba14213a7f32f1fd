// The configs that a tuner may try.
#pragma once

#include <string>
#include <vector>

#include "kiln/autotune/workload.h"
#include "kiln/dsl/ir.h"

namespace kiln::autotune {

// A config: values of constexprs and schedule options, all of them.
using Config = dsl::ConstexprValues;

struct Space {
  std::vector<dsl::SpaceAxis> axes;         // values ascending, each once
  std::vector<dsl::Condition> constraints;  // a config that does not meet one is not in the space
};

// What the kernel declares for the target, or `axes` in place of it; for a kernel without such a space one derived from
// its ops and the target: powers of two around the defaults of constexprs that are extents of tiles, num_warps and
// num_stages on GPUs.
// Schedule options that the target does not have are left out. Error: an axis that names nothing.
Result<Space> space_for(const dsl::Kernel& kernel, const std::string& target,
                        const std::vector<dsl::SpaceAxis>& axes = {});

// Every config of the space that is valid for the workload: constraints hold, and the kernel instantiates. The first is
// the default: the kernel's own for this target or, where that is not valid, the valid one nearest to it. Always the
// same order. Error when none is valid: what the first refusal says.
Result<std::vector<Config>> enumerate(const dsl::Kernel& kernel, const std::string& target, const Space& space,
                                      const Workload& workload);

// Those of these configs that are valid for the workload, in their order. Error when none is: what the first refusal
// says.
Result<std::vector<Config>> valid_configs(const dsl::Kernel& kernel, const Space& space, const Workload& workload,
                                          const std::vector<Config>& configs);

// "BM=128,BN=64,num_warps=8", ordered by name; and back.
std::string to_string(const Config& config);
Result<Config> parse_config(const std::string& text);

// Where a config stands: the number of its value on each axis; of a value between two, the lower; -1 where it has none.
std::vector<double> places(const Space& space, const Config& config);

// Steps along the axes between two configs of a space: how far apart they are.
int distance(const Space& space, const Config& a, const Config& b);

}  // namespace kiln::autotune
