#include "passes/cse.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "kiln/dsl/traits.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::ValueId;

size_t mix(size_t seed, size_t value) { return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 7); }

struct HashAttr {
  size_t operator()(int64_t value) const { return static_cast<size_t>(value); }
  size_t operator()(const dsl::Expr& expr) const { return static_cast<size_t>(expr.as_constant().value_or(-1)); }
  size_t operator()(const std::vector<dsl::Expr>& list) const {
    size_t out = list.size();
    for (const dsl::Expr& expr : list) out = mix(out, (*this)(expr));
    return out;
  }
  size_t operator()(dsl::ElementType element) const { return static_cast<size_t>(element); }
  size_t operator()(dsl::Literal literal) const { return literal.bits; }
  size_t operator()(const std::string& text) const { return std::hash<std::string>()(text); }
};

// Equal ops have equal ones.
size_t hash_of(const Op& op) {
  size_t out = static_cast<size_t>(op.code);
  for (ValueId operand : op.operands) out = mix(out, operand);
  for (const dsl::Attr& attr : op.attrs) out = mix(out, std::visit(HashAttr{}, attr));
  return out;
}

bool are_equal(const Op& x, const Op& y) { return x.code == y.code && x.operands == y.operands && x.attrs == y.attrs; }

// The ops that may stand for later ones, by their hashes.
using Seen = std::unordered_map<size_t, std::vector<const Op*>>;

class Eliminator {
 public:
  Eliminator(size_t values, bool takes_loads) : takes_loads_(takes_loads), replacement_(values) {
    for (ValueId id = 0; id < values; ++id) replacement_[id] = id;
  }

  // Leaves `seen` as it was: outside of the region nothing of it is known.
  void run(dsl::Region& region, Seen& seen) {
    std::vector<Op> kept;
    kept.reserve(region.ops.size());  // `seen` points into it
    std::vector<size_t> added;
    for (Op& op : region.ops) {
      for (ValueId& operand : op.operands) operand = replacement_[operand];
      const bool is_pure_load = takes_loads_ && op.code == dsl::OpCode::kLoad;
      if (is_pure_load || (is_pure(op) && op.regions.empty())) {
        std::vector<const Op*>& alike = seen[added.emplace_back(hash_of(op))];
        if (const Op* same = find(alike, op)) {
          for (size_t i = 0; i < op.results.size(); ++i) replacement_[op.results[i]] = same->results[i];
          added.pop_back();
          continue;
        }
        kept.push_back(std::move(op));
        alike.push_back(&kept.back());
        continue;
      }
      // The regions of reduce and scan run for many lanes at once: they see nothing from outside.
      const bool combines = is_pure(op);
      for (dsl::Region& inner : op.regions) {
        Seen none;
        run(inner, combines ? none : seen);
      }
      kept.push_back(std::move(op));
    }
    for (size_t hash : added) seen[hash].pop_back();
    region.ops = std::move(kept);
  }

 private:
  static const Op* find(const std::vector<const Op*>& alike, const Op& op) {
    const auto found = std::find_if(alike.begin(), alike.end(), [&](const Op* known) { return are_equal(*known, op); });
    return found == alike.end() ? nullptr : *found;
  }

  const bool takes_loads_;
  std::vector<ValueId> replacement_;
};

dsl::Kernel eliminated(dsl::Kernel kernel, bool takes_loads) {
  Seen seen;
  Eliminator(kernel.values.size(), takes_loads).run(kernel.body, seen);
  return kernel;
}

}  // namespace

dsl::Kernel eliminate_common_subexpressions(dsl::Kernel kernel) { return eliminated(std::move(kernel), false); }

dsl::Kernel eliminate_common_loads(dsl::Kernel kernel) { return eliminated(std::move(kernel), true); }

}  // namespace kiln::codegen
