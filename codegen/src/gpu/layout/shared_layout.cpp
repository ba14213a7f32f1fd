#include "gpu/layout/shared_layout.h"

#include <bit>
#include <cassert>

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

int log2_of(int64_t number) {
  assert(number > 0 && std::has_single_bit(static_cast<uint64_t>(number)));
  return std::countr_zero(static_cast<uint64_t>(number));
}

}  // namespace

int64_t SharedLayout::padded(int64_t offset) const {
  return pad_every == 0 ? offset : offset + offset / pad_every * pad_elements;
}

int64_t SharedLayout::offset_of(Bits element) const {
  return padded(static_cast<int64_t>(multiply(inverse(elements).columns(), element)));
}

SharedLayout shared_linear(const std::vector<int64_t>& shape, const std::vector<int>& order) {
  const Layout tile(shape);
  std::vector<Step> steps;
  for (int axis : order) steps.push_back({Dim::kOffset, axis, tile.axis_bits(axis)});
  return {from_steps(shape, steps)};
}

SharedLayout shared_padded(const std::vector<int64_t>& shape, const std::vector<int>& order, int64_t pad_every,
                           int64_t pad_elements) {
  SharedLayout out = shared_linear(shape, order);
  out.pad_every = pad_every;
  out.pad_elements = pad_elements;
  return out;
}

SharedLayout shared_swizzled(const std::vector<int64_t>& shape, int64_t vector, int64_t per_phase, int64_t phases,
                             const std::vector<int>& order) {
  const Layout plain = shared_linear(shape, order).elements;
  const int line_bits = plain.axis_bits(order[0]), first_group = log2_of(vector), first_line = log2_of(per_phase);
  Layout out(shape);
  Columns bases = plain.bases(Dim::kOffset);
  for (int i = 0; i < log2_of(phases); ++i) {
    const int line = line_bits + first_line + i, group = first_group + i;
    if (group >= line_bits || line >= plain.element_bits()) break;
    bases[line] ^= bases[group];
  }
  out.add(Dim::kOffset, bases);
  return {out};
}

SharedLayout shared_panels(const std::vector<int64_t>& shape, int element_bits, int swizzle_bytes,
                           const std::vector<int>& order) {
  const int64_t width = int64_t{swizzle_bytes} * 8 / element_bits, vector = 128 / element_bits;
  // The xor is with address bits from bit 7 on, so lines of less than 128 bytes share a phase.
  std::vector<int64_t> panel = shape, panels(shape.size(), 1);
  assert(panel[order[0]] >= width);
  panels[order[0]] = panel[order[0]] / width;
  panel[order[0]] = width;
  const SharedLayout one = shared_swizzled(panel, vector, 128 / swizzle_bytes, swizzle_bytes / 16, order);
  return {product(one.elements, shared_linear(panels, order).elements)};
}

}  // namespace kiln::codegen::gpu
