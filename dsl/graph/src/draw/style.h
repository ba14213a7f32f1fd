// How nodes look, and how text gets into a drawing.
#pragma once

#include <string>
#include <string_view>

#include "kiln/graph/ops.h"

namespace kiln::graph {

// Fill and line of what belongs to a family: what moves nothing is grey, what sums is warm, what is elementwise cool.
struct Colours {
  std::string_view fill, line;
};
Colours colours(Family family);

// "n0_12": of a node in DOT, in SVG and in the page.
std::string node_id(uint32_t body, uint32_t node);
// Text between tags of XML or HTML, without control characters.
std::string escaped(std::string_view text);

}  // namespace kiln::graph
