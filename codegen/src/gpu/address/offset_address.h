// Addresses whose threads differ by offsets of 32 bits from one that all of them have alike.
#pragma once

#include "gpu/address/address.h"

namespace kiln::codegen::gpu {

// Nothing where the target has no use for them, or they are not known to be small enough.
std::optional<std::vector<Address>> offset_addresses(Context& ctx, ValueId pointers, const Layout& layout);

}  // namespace kiln::codegen::gpu
