#include "gpu/layout/scan.h"

#include <cassert>

namespace kiln::codegen::gpu {
namespace {

// The bits of `dim` that stand for elements with this bit.
Bits bits_with(const Layout& layout, Dim dim, Bits bit) {
  Bits out = 0;
  for (int i = 0; i < layout.bits(dim); ++i) {
    if (layout.bases(dim)[i] & bit) out |= Bits{1} << i;
  }
  return out;
}

}  // namespace

Result<std::vector<ScanStep>> plan_scan(const Layout& layout, int axis) {
  assert(layout.surjective());
  const int lane_at = layout.bits(Dim::kRegister), warp_at = lane_at + layout.bits(Dim::kLane);
  const int block_at = warp_at + layout.bits(Dim::kWarp);
  const auto mask = [](int bits) { return (Bits{1} << bits) - 1; };
  const Span inputs(layout.columns());
  std::vector<ScanStep> out;
  for (int i = 0; i < layout.axis_bits(axis); ++i) {
    const Bits bit = Bits{1} << (layout.axis_offset(axis) + i);
    const Bits beside = *inputs.solve(bit);
    if (beside >> block_at) {
      return error(ErrorCode::kCompileFailed, "a scan along axis " + std::to_string(axis) +
                                                  " would combine elements of different blocks: " + to_string(layout));
    }
    out.push_back({.reg = beside & mask(lane_at),
                   .lane = beside >> lane_at & mask(layout.bits(Dim::kLane)),
                   .warp = beside >> warp_at,
                   .upper = {.reg = bits_with(layout, Dim::kRegister, bit),
                             .lane = bits_with(layout, Dim::kLane, bit),
                             .warp = bits_with(layout, Dim::kWarp, bit),
                             .block = bits_with(layout, Dim::kBlock, bit)}});
  }
  return out;
}

}  // namespace kiln::codegen::gpu
