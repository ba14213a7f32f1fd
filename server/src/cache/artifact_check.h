// Whether code is what its metadata says, as far as a look at it tells: a worker may lie, or be half dead.
#pragma once

#include <cstddef>
#include <span>

#include "kiln/abi/metadata.h"

namespace kiln::server {

// Not empty; an ELF file where `emit` is one of its kinds; PTX with the entry that `entry` names.
Result<void> check_artifact(const abi::Metadata& metadata, std::span<const std::byte> code);

}  // namespace kiln::server
