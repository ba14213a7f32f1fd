// The facts of a whole case: one walk in program order. What loops carry is taken at its weakest, so one pass is
// enough.
#include <algorithm>

#include "random/facts.h"

namespace kiln::random_kernel {
namespace {

using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::ValueId;

// The parameters that each pointer or descriptor may come from, forwards; loops pass pointers on as they are given.
void mark_loaded(const Kernel& kernel, const Region& region, std::vector<uint32_t>& roots, std::vector<bool>& loaded) {
  for (const Op& op : region.ops) {
    if (dsl::info(op.code).has(dsl::kReads)) loaded[roots[op.operands[0]]] = true;
    for (size_t i = 0; i < op.results.size(); ++i) {
      for (const ValueId operand : op.operands) {
        if (!kernel.type(operand).is_value()) roots[op.results[i]] = roots[operand];
      }
    }
    for (const Region& inner : op.regions) mark_loaded(kernel, inner, roots, loaded);
  }
}

class Walk {
 public:
  explicit Walk(const World& world)
      : world_(world), facts_(world.kernel.values.size()), stored_(world.kernel.params.size()) {
    for (size_t i = 0; i < world.kernel.params.size(); ++i) facts_[world.kernel.params[i].value] = world.argument(i);
  }

  bool visit(const Region& region) {
    for (const Op& op : region.ops) {
      if (!visit(op)) return false;
    }
    return true;
  }

  const std::string& problem() const { return problem_; }
  const std::vector<Fact>& facts() const { return facts_; }
  const std::vector<Fact>& stored() const { return stored_; }

 private:
  bool fail(const Op& op, const std::string& what) {
    problem_ = dsl::info(op.code).name + ": " + what;
    return false;
  }

  std::vector<Fact> operands(const Op& op) const {
    std::vector<Fact> out;
    for (const ValueId id : op.operands) out.push_back(facts_[id]);
    return out;
  }

  bool visit(const Op& op) {
    const std::vector<Fact> in = operands(op);
    if (op.code == OpCode::kFor || op.code == OpCode::kWhile) return loop(op, in);
    if (op.code == OpCode::kIf) return branches(op);
    Outcome outcome = facts_of(world_, op, in);
    if (!outcome.problem.empty()) return fail(op, outcome.problem);
    for (size_t i = 0; i < op.results.size(); ++i) facts_[op.results[i]] = outcome.results[i];
    if (op.code == OpCode::kStore || op.code == OpCode::kStoreTile) {
      Fact& fact = stored_[in[0].root];
      fact = join(fact, in[1]);
    } else if (dsl::info(op.code).has(dsl::kWrites)) {
      Fact& fact = stored_[in[0].root];
      fact.level = std::max(fact.level, Level::kValue);
    }
    return true;
  }

  bool carried(const Op& op, const std::vector<Fact>& values, size_t first) {
    for (size_t i = first; i < values.size(); ++i) {
      if (!within(values[i], carried_fact(world_.kernel.type(op.results[i - first])))) {
        return fail(op, "carries an inexact value");
      }
    }
    return true;
  }

  bool loop(const Op& op, const std::vector<Fact>& in) {
    const size_t first = op.code == OpCode::kFor ? 3 : 0;
    if (!carried(op, in, first)) return false;
    for (const Region& region : op.regions) {
      for (const ValueId arg : region.args) facts_[arg] = carried_fact(world_.kernel.type(arg));
      if (first == 3) {
        Fact& index = facts_[region.args[0]];
        index.low = in[0].low;
        index.high = std::max(in[0].low, in[1].high - 1);
        index.may_wrap = false;
      }
      if (!visit(region)) return false;
    }
    if (!carried(op, operands(op.regions.back().ops.back()), 0)) return false;
    for (const ValueId id : op.results) facts_[id] = carried_fact(world_.kernel.type(id));
    return true;
  }

  bool branches(const Op& op) {
    for (const Region& region : op.regions) {
      if (!visit(region)) return false;
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      facts_[op.results[i]] =
          join(facts_[op.regions[0].ops.back().operands[i]], facts_[op.regions[1].ops.back().operands[i]]);
    }
    return true;
  }

  const World& world_;
  std::vector<Fact> facts_;
  std::vector<Fact> stored_;  // by parameter: what was stored, joined
  std::string problem_;
};

struct Known {
  std::vector<Fact> values, stored;
};

Result<Known> analyse(const Kernel& kernel, const Case& test) {
  auto grid = grid_of(kernel, test.inputs);
  if (!grid) return grid.error();
  World world{kernel,          test.inputs, config_of(kernel, test.config), {}, {(*grid)[0], (*grid)[1], (*grid)[2]},
              test.f8_sum_bits};
  world.loaded.resize(kernel.params.size());
  std::vector<uint32_t> roots(kernel.values.size());
  for (uint32_t i = 0; i < kernel.params.size(); ++i) roots[kernel.params[i].value] = i;
  mark_loaded(kernel, kernel.body, roots, world.loaded);
  Walk walk(world);
  if (!walk.visit(kernel.body)) return invalid_argument(walk.problem());
  return Known{walk.facts(), walk.stored()};
}

}  // namespace

Result<std::vector<Fact>> output_facts(const Case& test) {
  auto concrete = instantiated(test);
  if (!concrete) return concrete.error();
  auto known = analyse(*concrete, test);
  if (!known) return known.error();
  return std::move(known->stored);
}

Result<std::vector<Fact>> value_facts(const Case& test) {
  auto known = analyse(test.kernel, test);
  if (!known) return known.error();
  return std::move(known->values);
}

}  // namespace kiln::random_kernel
