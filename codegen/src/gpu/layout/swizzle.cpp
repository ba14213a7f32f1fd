// Two lanes conflict where their elements differ in the offset's bits above a line and in none below. So let H be the
// hull of what the bits above a line stand for, V that of the lowest bits (vector and word), P and Q those of the lanes
// that store and load at once; all modulo V. H should have nothing in common with P nor with Q.
//
// With a basis (c, p) of P and (c, q) of Q, c common to both: anything outside P + Q will do for H, and the
// accumulators p_i ^ q_i. That is n - max(dim P, dim Q) dimensions of n, and more there are not. The rest of H has to
// conflict: it is taken from the longer of p and q first, as that hurts one side only.
//
// This is the construction of section 5.4 of "Linear Layouts" (arXiv 2505.23819).
#include "gpu/layout/swizzle.h"

#include <algorithm>

namespace kiln::codegen::gpu {
namespace {

Columns joined(Columns a, const Columns& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The first `count` of the candidates that are new.
Columns first_new(const Columns& have, const Columns& candidates, size_t count) {
  Columns out = completion(have, candidates);
  out.resize(std::min(out.size(), count));
  return out;
}

}  // namespace

Columns choose_swizzle(const SwizzleRequest& request) {
  const Columns &stores = request.stores, &loads = request.loads;
  Columns low = request.vector;
  if (static_cast<int>(low.size()) < request.word_bits) {
    // Lanes that share a word need no bank of their own, best on both sides.
    const Columns shared = joined(intersection(stores, loads, low), joined(stores, joined(loads, request.space)));
    low = joined(low, first_new(low, shared, request.word_bits - low.size()));
  }
  const size_t line = std::max<size_t>(request.line_bits, low.size());
  const size_t above = request.space.size() > line ? request.space.size() - line : 0;

  const Columns common = intersection(stores, loads, low);
  const Columns only_stores = completion(joined(low, common), stores);
  const Columns only_loads = completion(joined(low, common), loads);
  Columns candidates = completion(joined(low, joined(stores, loads)), request.space);
  const size_t pairs = std::min(only_stores.size(), only_loads.size());
  for (size_t i = 0; i < pairs; ++i) candidates.push_back(only_stores[i] ^ only_loads[i]);
  for (const Columns* longer : {&only_stores, &only_loads}) {
    candidates.insert(candidates.end(), longer->begin() + static_cast<ptrdiff_t>(pairs), longer->end());
  }
  candidates = joined(candidates, joined(only_stores, common));
  const Columns high = first_new(low, candidates, above);

  const Columns banks = completion(joined(low, high), joined(stores, joined(loads, request.space)));
  return joined(low, joined(banks, high));
}

int64_t bank_conflicts(const Columns& swizzle, const Columns& lanes, int low_bits, int line_bits) {
  const auto first = swizzle.begin(), low = first + std::min<ptrdiff_t>(low_bits, std::ssize(swizzle));
  const auto line = first + std::min<ptrdiff_t>(std::max(line_bits, low_bits), std::ssize(swizzle));
  return int64_t{1} << intersection(lanes, Columns(line, swizzle.end()), Columns(first, low)).size();
}

}  // namespace kiln::codegen::gpu
