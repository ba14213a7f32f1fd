#include "gpu/layout/reduction.h"

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

// Inputs, packed, in whose directions elements differ along the axis alone, copies left out: of as few dims as can be.
// kernel() gives each vector as the last bit it needs and bits before, so the order is registers, lanes, warps.
Columns directions_along(const Layout& layout, int axis) {
  return completion(kernel(layout.columns()), kernel(slice(layout, axis).columns()));
}

}  // namespace

Result<ReductionPlan> plan_reduction(const Layout& layout, int axis) {
  const int register_bits = layout.bits(Dim::kRegister), lane_bits = layout.bits(Dim::kLane);
  const int warp_at = register_bits + lane_bits, block_at = warp_at + layout.bits(Dim::kWarp);
  const Bits registers = (Bits{1} << register_bits) - 1, lanes = (Bits{1} << lane_bits) - 1;
  ReductionPlan out;
  Columns between_warps;
  for (Bits direction : directions_along(layout, axis)) {
    if (direction >> block_at) {
      return error(ErrorCode::kCompileFailed, "a reduction along axis " + std::to_string(axis) +
                                                  " would combine elements of different blocks: " + to_string(layout));
    }
    if (direction >> warp_at) {
      between_warps.push_back(layout.at_packed(direction));
    } else if (direction >> register_bits) {
      out.shuffles.push_back({direction & registers, direction >> register_bits & lanes});
    } else {
      out.in_thread.push_back(direction);
    }
  }

  const Deduplicated sliced = without_copies_in_registers(slice(layout, axis));
  out.result = sliced.layout;
  out.partial_registers = sliced.original;
  // Which of the partial results an element has gone into: its part along those directions that are between warps.
  const Columns reduced = multiply(layout.columns(), [&] {
    Columns directions = out.in_thread;
    for (const Partner& partner : out.shuffles) directions.push_back(partner.reg | partner.lane << register_bits);
    return directions;
  }());
  Columns basis = between_warps;
  for (const Columns& more : {reduced, unit_vectors(layout.element_bits())}) {
    const Columns fresh = completion(basis, more);
    basis.insert(basis.end(), fresh.begin(), fresh.end());
  }
  const Span elements(basis);
  const Bits parts = (Bits{1} << between_warps.size()) - 1;

  std::vector<int64_t> shape = out.result.shape();
  shape.push_back(int64_t{1} << between_warps.size());
  out.partial = Layout(shape);
  for (Dim dim : kDims) {
    const Columns& whole = layout.bases(dim);
    const Columns& kept = out.result.bases(dim);
    for (size_t i = 0; i < kept.size(); ++i) {
      const Bits element = dim == Dim::kRegister ? layout.at({.reg = sliced.original[i]}) : whole[i];
      out.partial.add(dim, kept[i] << between_warps.size() | (*elements.solve(element) & parts));
    }
  }
  out.gathered = product(identity(out.partial.rank(), out.partial.rank() - 1, Dim::kRegister, parts + 1),
                         expand(out.result, out.result.rank()));
  return out;
}

}  // namespace kiln::codegen::gpu
