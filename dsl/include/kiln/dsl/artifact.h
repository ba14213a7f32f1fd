// What the service hands out: compiled code and what a launcher must know about it.
#pragma once

#include <cstddef>
#include <vector>

#include "kiln/abi/metadata.h"

namespace kiln {

struct Artifact {
  abi::Metadata metadata;
  std::vector<std::byte> code;  // an ELF shared object for `cpu` targets
};

}  // namespace kiln
