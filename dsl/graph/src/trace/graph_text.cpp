#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"

namespace kiln::graph {

Result<std::string> GraphDef::text() const {
  if (!ir_) return ir_.error();
  return print(*ir_);
}

}  // namespace kiln::graph
