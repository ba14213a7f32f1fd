// The names by which a graph's dims, bodies and kernels are printed: their own, made unique and readable where they are
// not.
#pragma once

#include <string>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// A name as it stands in text: in quotes where it is no word.
std::string text_name(const std::string& name);

struct PrintNames {
  explicit PrintNames(const Graph& graph);

  // Of text; borrow from this.
  dsl::ExprNames exprs() const;
  std::string body(int64_t id) const;  // "?" where there is none
  std::string kernel(int64_t id) const;

  std::vector<std::string> dims, bodies, kernels;
};

}  // namespace kiln::graph
