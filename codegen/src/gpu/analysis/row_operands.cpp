#include "gpu/analysis/row_operands.h"

#include <algorithm>
#include <vector>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

// Who reads the values of a loop's body.
class Readers {
 public:
  Readers(const dsl::Kernel& kernel, const dsl::Region& body) : kernel_(kernel), readers_(kernel.values.size()) {
    for (const Op& op : body.ops) {
      for (ValueId id : op.operands) readers_[id].push_back(&op);
    }
  }

  // Whether a tile of one axis, and what is computed from it alone, ends as columns of one element.
  bool become_columns(ValueId id) const {
    return !readers_[id].empty() && std::ranges::all_of(readers_[id], [&](const Op* reader) {
      if (reader->code == OpCode::kExpandDims) return int_attr(*reader, 0) == 1;
      const ValueId result = reader->results.empty() ? id : reader->results[0];
      return is_elementwise(*reader) && result != id && kernel_.type(result).rank() == 1 && become_columns(result);
    });
  }

 private:
  const dsl::Kernel& kernel_;
  std::vector<std::vector<const Op*>> readers_;  // by value
};

}  // namespace

std::set<const Op*> row_operands(const dsl::Kernel& kernel, const Op& loop) {
  const dsl::Region& body = loop.regions[0];
  std::set<const Op*> out;
  const bool multiplies = std::ranges::any_of(body.ops, [](const Op& op) { return op.code == OpCode::kDot; });
  if (!multiplies || has_effect(body)) return out;
  const Readers readers(kernel, body);
  for (const Op& op : body.ops) {
    if (op.code != OpCode::kLoad || kernel.type(op.results[0]).rank() != 1) continue;
    if (readers.become_columns(op.results[0])) out.insert(&op);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
