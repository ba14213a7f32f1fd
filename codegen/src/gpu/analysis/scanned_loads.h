// Which loads bring tiles that are scanned: their layout keeps neighbours along that axis in one thread (coalesce.h).
#pragma once

#include <map>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// By load: the axis along which a scan, or a reduction by a region, goes through its tile or what is computed of it
// element by element.
std::map<const dsl::Op*, int> scanned_loads(const dsl::Kernel& kernel);

}  // namespace kiln::codegen::gpu
