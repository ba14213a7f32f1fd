// `kiln graph print`, `verify` and `hash`: graph files as text.
#pragma once

#include <string>

#include "kiln/dsl/result.h"

namespace kiln::cli {

struct GraphFileFlags {
  std::string file;        // .kg
  bool locations = false;  // of print
};
Result<void> print_graph(const GraphFileFlags& flags);
Result<void> verify_graph(const GraphFileFlags& flags);
Result<void> hash_graph(const GraphFileFlags& flags);

}  // namespace kiln::cli
