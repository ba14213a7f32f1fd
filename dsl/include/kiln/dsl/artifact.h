// What the service hands out: compiled code and what a launcher must know about it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace kiln {

struct Artifact {
  // Kernel name, target, entry symbol, parameter plan, grid expressions, config, facts, phases in microseconds;
  // the fields are listed in docs/reference/artifact.md.
  nlohmann::json metadata;
  std::vector<std::byte> code;  // an ELF shared object for `cpu` targets
};

}  // namespace kiln
