// From the tile IR to a code object.
#pragma once

#include "gpu/vendor.h"

namespace kiln::codegen::amdgcn {

const gpu::Vendor& vendor();

}  // namespace kiln::codegen::amdgcn
