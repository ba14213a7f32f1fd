// The arguments of `kiln run`: x=@in.npy, y=@out.npy:f32[4096,1024], z=@in.npy>@out.npy, n=1024, a=0.5.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/client/handle.h"
#include "kiln/client/npy.h"

namespace kiln::cli {

struct RunArgument {
  client::NpyArray array;  // of a pointer
  uint64_t bits = 0;       // of a scalar
  std::string output;      // file to write after the run; empty: none
};

// One a parameter, in the kernel's order; files are read. Every message names the argument.
Result<std::vector<RunArgument>> parse_arguments(const dsl::Kernel& kernel, const std::vector<std::string>& texts);

std::vector<client::Argument> launch_arguments(const dsl::Kernel& kernel, std::vector<RunArgument>& arguments);

}  // namespace kiln::cli
