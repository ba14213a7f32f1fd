// Axes from the ops of a kernel. A constexpr is the tuner's where it cuts work into pieces: an extent of a tile that
// the grid, or the step of a loop, mentions too. What the sizes of arrays mention is part of the problem instead, such
// as the width of a head. Schedule options join where a GPU has ops that they speed up.
#include "search/derive_space.h"

#include <map>
#include <set>

#include "kiln/dsl/config.h"
#include "kiln/dsl/traits.h"

namespace kiln::autotune {
namespace {

using Mentions = std::set<uint32_t>;  // constexprs by number

void add_mentions(const dsl::Expr& expr, Mentions& out) {
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.kind == dsl::AtomKind::kConstexpr) out.insert(atom.index);
      if (!atom.args) continue;
      add_mentions(atom.args->first, out);
      add_mentions(atom.args->second, out);
    }
  }
}

struct Uses {
  Mentions extents, steps;
  bool dots = false;          // products of tiles
  bool staged_loops = false;  // that asked for several stages
};

Uses uses_of(const dsl::Kernel& kernel) {
  Uses out;
  std::map<dsl::ValueId, Mentions> constants;
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    for (dsl::ValueId id : op.results) {
      for (const dsl::Expr& extent : kernel.type(id).shape) add_mentions(extent, out.extents);
    }
    if (op.code == dsl::OpCode::kConstant) {
      if (const auto* value = std::get_if<dsl::Expr>(&op.attrs[0])) add_mentions(*value, constants[op.results[0]]);
    }
    out.dots |= family_of(op) == dsl::OpFamily::kDot;
    if (op.code != dsl::OpCode::kFor) return;
    if (auto step = constants.find(op.operands[2]); step != constants.end()) {
      out.steps.insert(step->second.begin(), step->second.end());
    }
    out.staged_loops |= std::get<dsl::Expr>(op.attrs[0]).as_constant().value_or(2) > 1;
  });
  return out;
}

// A quarter, half, one, two and four times the default.
std::vector<int64_t> around(int64_t value) {
  std::vector<int64_t> out;
  for (int64_t divisor : {4, 2}) {
    if (value % divisor == 0) out.push_back(value / divisor);
  }
  for (int64_t factor : {1, 2, 4}) out.push_back(value * factor);
  return out;
}

}  // namespace

bool has_schedule_option(const dsl::Kernel& kernel, const std::string& target, const std::string& name) {
  dsl::ConstexprValues values = {{name, 1}};
  for (const dsl::Constexpr& item : kernel.constexprs) values.emplace(item.name, item.default_value.value_or(1));
  auto complete = dsl::complete_constexprs(kernel, values, target);
  return complete && complete->contains(name);
}

std::vector<dsl::SpaceAxis> derive_axes(const dsl::Kernel& kernel, const std::string& target) {
  const Uses uses = uses_of(kernel);
  Mentions cuts = uses.steps, problem;
  for (const dsl::Expr& extent : kernel.grid) add_mentions(extent, cuts);
  for (const dsl::ArrayInfo& array : kernel.arrays) add_mentions(array.elements, problem);

  std::vector<dsl::SpaceAxis> out;
  auto defaults = dsl::complete_constexprs(kernel, {}, target);
  for (uint32_t index : uses.extents) {
    const std::string& name = kernel.constexprs[index].name;
    if (!cuts.contains(index) || problem.contains(index) || !defaults || defaults->at(name) < 1) continue;
    out.push_back({name, around(defaults->at(name))});
  }
  if (has_schedule_option(kernel, target, std::string(dsl::kNumWarps))) {
    out.push_back(
        {std::string(dsl::kNumWarps), uses.dots ? std::vector<int64_t>{4, 8} : std::vector<int64_t>{1, 2, 4, 8}});
  }
  if (uses.staged_loops && has_schedule_option(kernel, target, std::string(dsl::kNumStages))) {
    out.push_back({std::string(dsl::kNumStages), {1, 2, 3, 4}});
  }
  return out;
}

}  // namespace kiln::autotune
