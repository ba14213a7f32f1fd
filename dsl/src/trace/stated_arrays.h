// How large the arrays behind pointer parameters are, as far as tiles and descriptors say so while a kernel is traced:
//
//   tile(x, {rows, cols}, {stride, 1})   array x = 1 + (rows - 1) * stride + (cols - 1)
//
// A pointer that other ops reach too may stand for more than its tiles do: of such a one nothing is known.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

class StatedArrays {
 public:
  // Of a tile or descriptor over `base`. Of two for one base the larger counts; nothing: its size is not known.
  void state(ValueId base, const std::optional<Expr>& elements);
  // By an op that is no part of a tile or descriptor.
  void reach(ValueId base) { reached_.insert(base); }

  // For the kernel's pointer parameters, in their order.
  std::vector<ArrayInfo> arrays(const Kernel& kernel) const;

 private:
  std::map<ValueId, Expr> elements_;
  std::set<ValueId> reached_;
};

// The last element's place and one. Without strides the array is contiguous; nothing where an extent or stride is not
// known to launchers.
std::optional<Expr> elements_of(const std::vector<std::optional<Expr>>& extents,
                                const std::vector<std::optional<Expr>>& strides);

}  // namespace kiln::dsl
