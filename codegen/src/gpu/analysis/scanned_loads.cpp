#include "gpu/analysis/scanned_loads.h"

#include <set>

#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

class Search {
 public:
  explicit Search(const dsl::Kernel& kernel) : kernel_(kernel), definition_(dsl::definitions(kernel)) {
    dsl::for_each_op(kernel, [this](const Op& op) {
      const bool keeps_order = op.code == OpCode::kScan || (op.code == OpCode::kReduce && !op.regions.empty());
      if (!keeps_order) return;
      std::set<ValueId> seen;
      for (ValueId id : op.operands) follow(id, static_cast<int>(int_attr(op, 1)), seen);
    });
  }

  std::map<const Op*, int> take() { return std::move(found_); }

 private:
  void follow(ValueId id, int axis, std::set<ValueId>& seen) {
    const Op* op = definition_[id];
    if (!op || kernel_.type(id).rank() == 0 || !seen.insert(id).second) return;
    if (op->code == OpCode::kLoad) {
      found_.try_emplace(op, axis);
    } else if (is_elementwise(*op)) {
      for (ValueId operand : op->operands) follow(operand, axis, seen);
    }
  }

  const dsl::Kernel& kernel_;
  std::vector<const Op*> definition_;
  std::map<const Op*, int> found_;
};

}  // namespace

std::map<const Op*, int> scanned_loads(const dsl::Kernel& kernel) { return Search(kernel).take(); }

}  // namespace kiln::codegen::gpu
