#include "launches/product.h"

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/traits.h"
#include "launches/loop.h"
#include "launches/split.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

// The iterations of this part.
Iterations part_of(OpBuilder& build, const SplitLoop& split) {
  Ints ints(build, ElementType::kI64);
  const ValueId trips = trips_of(build, split.loop);
  const ValueId each = ints.quotient_up(trips, ints.constant(split.slots));
  const ValueId first = ints.mul(ints.cast(split.chunk), each);
  return {first, ints.add(first, each), trips};
}

// The kernel without its effects, which the stores of partial sums replace; what they alone needed is dropped.
dsl::Kernel make_parts(const dsl::Kernel& source, const SplitLoop& split) {
  dsl::Kernel kernel = source;
  kernel.body.ops.clear();
  OpBuilder build(kernel, kernel.body.ops, split.loop.loc);
  assume_params(build, split, split.slots);
  for (const Op& op : source.body.ops) {
    if (op.results == split.loop.results) {
      append_part(kernel, kernel.body.ops, op, part_of(build, split));
    } else if (op.code == OpCode::kAssume || !has_effect(op)) {
      kernel.body.ops.push_back(op);
    }
  }
  store_partials(build, split, split.pointers, split.chunk);
  return dsl::canonicalise(kernel);
}

}  // namespace

bool split_product(LaunchSequence& sequence, int64_t parts) {
  const Op* loop = find_product_loop(sequence.steps.back().kernel);
  if (!loop) return false;
  SplitLoop split{*loop, parts};
  add_slots(sequence, split);
  LaunchStep& last = sequence.steps.back();
  LaunchStep before{make_parts(last.kernel, split), "kiln_stage_0", parts};
  last.kernel = make_sums(last.kernel, split);
  store_in_parts(sequence);
  sequence.steps.insert(sequence.steps.end() - 1, std::move(before));
  return true;
}

}  // namespace kiln::codegen
