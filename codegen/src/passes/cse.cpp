#include "passes/cse.h"

#include <map>
#include <tuple>

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::ValueId;

// Ops with equal keys are candidates; attributes are compared one by one.
using Key = std::pair<dsl::OpCode, std::vector<ValueId>>;
using Seen = std::multimap<Key, const Op*>;

class Eliminator {
 public:
  Eliminator(size_t values, bool takes_loads) : takes_loads_(takes_loads), replacement_(values) {
    for (ValueId id = 0; id < values; ++id) replacement_[id] = id;
  }

  void run(dsl::Region& region, Seen seen) {
    std::vector<Op> kept;
    kept.reserve(region.ops.size());  // `seen` points into it
    for (Op& op : region.ops) {
      for (ValueId& operand : op.operands) operand = replacement_[operand];
      const bool is_pure_load = takes_loads_ && op.code == dsl::OpCode::kLoad;
      if (is_pure_load || (dsl::info(op.code).has(dsl::kPure) && op.regions.empty())) {
        if (const Op* same = find(seen, op)) {
          for (size_t i = 0; i < op.results.size(); ++i) replacement_[op.results[i]] = same->results[i];
          continue;
        }
        kept.push_back(std::move(op));
        seen.emplace(Key{kept.back().code, kept.back().operands}, &kept.back());
        continue;
      }
      // The regions of reduce and scan run for many lanes at once: they see nothing from outside.
      const bool combines = dsl::info(op.code).has(dsl::kPure);
      for (dsl::Region& inner : op.regions) run(inner, combines ? Seen{} : seen);
      kept.push_back(std::move(op));
    }
    region.ops = std::move(kept);
  }

 private:
  static const Op* find(const Seen& seen, const Op& op) {
    auto [first, last] = seen.equal_range({op.code, op.operands});
    for (; first != last; ++first) {
      if (first->second->attrs == op.attrs) return first->second;
    }
    return nullptr;
  }

  const bool takes_loads_;
  std::vector<ValueId> replacement_;
};

}  // namespace

dsl::Kernel eliminate_common_subexpressions(dsl::Kernel kernel) {
  Eliminator(kernel.values.size(), false).run(kernel.body, {});
  return kernel;
}

dsl::Kernel eliminate_common_loads(dsl::Kernel kernel) {
  Eliminator(kernel.values.size(), true).run(kernel.body, {});
  return kernel;
}

}  // namespace kiln::codegen
