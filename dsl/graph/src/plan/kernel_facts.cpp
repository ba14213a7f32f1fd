// What the code of a plan's kernels is compiled for.
#include <algorithm>

#include "kiln/graph/plan.h"

namespace kiln::graph {
namespace {

constexpr int64_t kAligned = 16;  // bytes, as ParamFact::kAlign16 says
static_assert(kArenaAlignment % kAligned == 0);

bool is_aligned(const Expr& offset, std::span<const DimInfo> dims) {
  return std::ranges::all_of(offset.terms(), [&](const dsl::Term& term) {
    int64_t factor = term.coefficient % kAligned;
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.kind != dsl::AtomKind::kConstexpr || atom.index >= dims.size()) continue;
      factor = factor * (dims[atom.index].multiple % kAligned) % kAligned;
    }
    return factor == 0;
  });
}

}  // namespace

std::vector<dsl::Facts> facts_of(const Plan& plan) {
  std::vector<dsl::Facts> out;
  for (const PlannedKernel& kernel : plan.kernels) {
    dsl::Facts& facts = out.emplace_back();
    for (const dsl::Param& param : kernel.kernel.params) {
      facts.push_back(param.type.pointer && !kernel.code ? dsl::ParamFact::kAlign16 : dsl::ParamFact::kNone);
    }
  }
  for (const PlannedLaunch& launch : plan.launches) {
    dsl::Facts& facts = out[launch.kernel];
    for (size_t i = 0; i < facts.size(); ++i) {
      if (!is_aligned(launch.arguments[i].offset, plan.dims)) facts[i] = dsl::ParamFact::kNone;
    }
  }
  return out;
}

}  // namespace kiln::graph
