// `kiln graph print`, `verify`, `hash` and `draw`: graph files as text and as pictures.
#pragma once

#include <string>

#include "kiln/dsl/result.h"

namespace kiln::cli {

struct GraphFileFlags {
  std::string file;        // .kg
  bool locations = false;  // of print
  bool no_views = false;   // of draw
  std::string output;      // of draw: .dot, .svg or .html
};
Result<void> print_graph(const GraphFileFlags& flags);
Result<void> verify_graph(const GraphFileFlags& flags);
Result<void> hash_graph(const GraphFileFlags& flags);
Result<void> draw_graph(const GraphFileFlags& flags);

}  // namespace kiln::cli
