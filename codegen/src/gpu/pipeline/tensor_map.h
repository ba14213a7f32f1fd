// What the host encodes at a launch for the bulk engine (docs/reference/artifact.md, "Tensor maps").
#pragma once

#include "kiln/abi/metadata.h"

namespace kiln::codegen::gpu {

using abi::TensorMap;

}  // namespace kiln::codegen::gpu
