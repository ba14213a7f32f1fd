// NVIDIA's entry in the compiler's table of vendors.
#pragma once

#include "gpu/vendor.h"

namespace kiln::codegen::nvptx {

const gpu::Vendor& vendor();

}  // namespace kiln::codegen::nvptx
