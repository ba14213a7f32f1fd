// Addresses are followed from the parameters through every op that takes and gives pointers or views. Values that loops
// carry come round again, so the walk is repeated until nothing is new.
#include "memory_use.h"

#include <set>

#include "kiln/dsl/walk.h"

namespace kiln::autotune {
namespace {

using Origins = std::set<uint32_t>;  // numbers of parameters

class Walk {
 public:
  explicit Walk(const dsl::Kernel& kernel)
      : kernel_(kernel), origins_(kernel.values.size()), use_(kernel.params.size()) {
    for (uint32_t i = 0; i < kernel.params.size(); ++i) {
      if (kernel.params[i].type.pointer) origins_[kernel.params[i].value].insert(i);
    }
  }

  std::vector<ParamUse> run() {
    do {
      changed_ = false;
      for_each_op_postorder(kernel_, [&](const dsl::Op& op) { visit(op); });
    } while (changed_);
    return use_;
  }

 private:
  bool is_address(dsl::ValueId id) const { return !kernel_.type(id).is_value(); }

  void flow(const Origins& from, dsl::ValueId to) {
    if (!is_address(to)) return;
    for (uint32_t param : from) changed_ |= origins_[to].insert(param).second;
  }

  // Results and the arguments of regions may come from any address among the operands and the regions' yields.
  void visit(const dsl::Op& op) {
    Origins all;
    for (dsl::ValueId id : op.operands) all.insert(origins_[id].begin(), origins_[id].end());
    for (const dsl::Region& region : op.regions) {
      for (dsl::ValueId id : region.ops.back().operands) all.insert(origins_[id].begin(), origins_[id].end());
    }
    for (dsl::ValueId id : op.results) flow(all, id);
    for (const dsl::Region& region : op.regions) {
      for (dsl::ValueId id : region.args) flow(all, id);
    }
    const dsl::OpInfo& info = dsl::info(op.code);
    if (op.operands.empty() || !(info.has(dsl::kReads) || info.has(dsl::kWrites))) return;
    for (uint32_t param : origins_[op.operands[0]]) {
      use_[param].read |= info.has(dsl::kReads);
      use_[param].written |= info.has(dsl::kWrites);
    }
  }

  const dsl::Kernel& kernel_;
  std::vector<Origins> origins_;  // by value
  std::vector<ParamUse> use_;
  bool changed_ = false;
};

int fraction_bits(dsl::ElementType type) {
  switch (type) {
    case dsl::ElementType::kF8E5M2:
      return 2;
    case dsl::ElementType::kF8E4M3:
      return 3;
    case dsl::ElementType::kBF16:
      return 7;
    case dsl::ElementType::kF16:
      return 10;
    case dsl::ElementType::kF32:
      return 23;
    default:
      return 52;
  }
}

}  // namespace

std::vector<ParamUse> memory_use(const dsl::Kernel& kernel) { return Walk(kernel).run(); }

dsl::ElementType roughest_rounding(const dsl::Kernel& kernel) {
  dsl::ElementType roughest = dsl::ElementType::kF64;
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    if (op.code != dsl::OpCode::kCast) return;
    const dsl::ElementType from = kernel.type(op.operands[0]).element, to = kernel.type(op.results[0]).element;
    if (!dsl::is_float(from) || !dsl::is_float(to) || fraction_bits(to) >= fraction_bits(from)) return;
    if (fraction_bits(to) < fraction_bits(roughest)) roughest = to;
  });
  return roughest;
}

}  // namespace kiln::autotune
