// The space of a kernel that declares none.
#pragma once

#include "kiln/autotune/space.h"

namespace kiln::autotune {

// Whether a schedule option makes a difference to a target.
bool has_schedule_option(const dsl::Kernel& kernel, const std::string& target, const std::string& name);

std::vector<dsl::SpaceAxis> derive_axes(const dsl::Kernel& kernel, const std::string& target);

}  // namespace kiln::autotune
