#include "draw/style.h"

namespace kiln::graph {

Colours colours(Family family) {
  switch (family) {
    case Family::kMake:
      return {"#f5f5f0", "#8a8a7a"};
    case Family::kElementwise:
      return {"#e3f0fb", "#3d7ab5"};
    case Family::kView:
    case Family::kCat:
      return {"#f2f2f2", "#9a9a9a"};
    case Family::kIndex:
      return {"#e6f4ea", "#3f8f5a"};
    case Family::kReduce:
    case Family::kScan:
      return {"#fdeed9", "#c07a1e"};
    case Family::kOrder:
      return {"#f6efc9", "#998a1c"};
    case Family::kContract:
    case Family::kConv:
      return {"#fbdedb", "#c0463a"};
    case Family::kWindow:
    case Family::kResize:
      return {"#fbe6f1", "#b44d83"};
    case Family::kNorm:
      return {"#ece4f8", "#7a55b5"};
    case Family::kOptimiser:
      return {"#dcf3f1", "#2c8c84"};
    case Family::kControl:
      return {"#dfe3ee", "#46547a"};
    case Family::kKernel:
      return {"#e2e2e2", "#333333"};
  }
  return {"#ffffff", "#000000"};
}

std::string node_id(uint32_t body, uint32_t node) { return "n" + std::to_string(body) + "_" + std::to_string(node); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

}  // namespace kiln::graph
