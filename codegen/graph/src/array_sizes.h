// What the tuner must know of a kernel's arrays: how large they are, and what their elements may be where these are
// places of others.
#pragma once

#include <functional>

#include "kernel_writer.h"

namespace kiln::planner {

// Of what a nest computes places of: the extent of the axis that all elements of a tensor are places along; nothing
// where places are computed of them in any other way.
Indices indices_of(const Nest& nest);

// Writes what is known of them into the kernel. `bytes`: of the tensor behind a parameter, over the graph's dims. An
// array whose size mentions a dim that is no parameter is left out, and so is one whose elements are not known.
void state_arrays(const WrittenKernel& written, const std::function<Expr(ValueId)>& bytes, dsl::Kernel& kernel);

// An axis of a space: a quarter of the default, a half, once, twice and four times it.
dsl::SpaceAxis axis_around(const std::string& name, int64_t block);

}  // namespace kiln::planner
