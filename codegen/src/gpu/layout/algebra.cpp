#include "gpu/layout/algebra.h"

#include <algorithm>
#include <cassert>

namespace kiln::codegen::gpu {
namespace {

// `element` of a tile with the axes of `from`, each axis moved to where `to` has it and up by shift[axis] bits.
Bits move_axes(Bits element, const Layout& from, const Layout& to, const std::vector<int>& shift) {
  const std::vector<int64_t> coordinates = from.coordinates(element);
  std::vector<int64_t> out;
  for (int axis = 0; axis < from.rank(); ++axis) out.push_back(coordinates[axis] << shift[axis]);
  return to.element(out);
}

// The same bases with every element mapped.
template <class Map>
Layout mapped(const Layout& layout, const std::vector<int64_t>& shape, const Map& map) {
  Layout out(shape);
  for (Dim dim : kDims) {
    for (Bits element : layout.bases(dim)) out.add(dim, map(element));
  }
  return out;
}

std::vector<int> bits_of_axes(const Layout& layout) {
  std::vector<int> out;
  for (int axis = 0; axis < layout.rank(); ++axis) out.push_back(layout.axis_bits(axis));
  return out;
}

}  // namespace

Layout compose(const Layout& outer, const Layout& inner) {
  const Columns columns = outer.columns();
  assert(static_cast<int>(columns.size()) == inner.element_bits());
  return mapped(inner, outer.shape(), [&](Bits element) { return multiply(columns, element); });
}

Layout inverse(const Layout& layout) {
  assert(layout.surjective());
  std::vector<int64_t> sizes;
  for (size_t i = kDims.size(); i-- > 0;) sizes.push_back(layout.size(kDims[i]));
  Layout out(sizes);
  const Span inputs(layout.columns());
  for (Bits element : unit_vectors(layout.element_bits())) out.add(Dim::kOffset, *inputs.solve(element));
  return out;
}

Layout product(const Layout& tile, const Layout& rest) {
  assert(tile.rank() == rest.rank());
  std::vector<int64_t> shape = tile.shape();
  for (int axis = 0; axis < rest.rank(); ++axis) shape[axis] <<= rest.axis_bits(axis);
  Layout out(shape);
  const std::vector<int> none(tile.rank(), 0), up = bits_of_axes(tile);
  for (Dim dim : kDims) {
    for (Bits element : tile.bases(dim)) out.add(dim, move_axes(element, tile, out, none));
    for (Bits element : rest.bases(dim)) out.add(dim, move_axes(element, rest, out, up));
  }
  return out;
}

std::optional<Layout> divide(const Layout& layout, const Layout& tile) {
  if (layout.rank() != tile.rank()) return std::nullopt;
  std::vector<int64_t> shape;
  for (int axis = 0; axis < layout.rank(); ++axis) {
    if (layout.axis_bits(axis) < tile.axis_bits(axis)) return std::nullopt;
    shape.push_back(int64_t{1} << (layout.axis_bits(axis) - tile.axis_bits(axis)));
  }
  Layout rest(shape);
  for (Dim dim : kDims) {
    for (int i = tile.bits(dim); i < layout.bits(dim); ++i) {
      std::vector<int64_t> coordinates = layout.coordinates(layout.bases(dim)[i]);
      for (int axis = 0; axis < layout.rank(); ++axis) coordinates[axis] >>= tile.axis_bits(axis);
      rest.add(dim, rest.element(coordinates));
    }
  }
  if (product(tile, rest) != layout) return std::nullopt;
  return rest;
}

Layout identity(int rank, int axis, Dim dim, int64_t extent) {
  std::vector<int64_t> shape(rank, 1);
  shape[axis] = extent;
  Layout out(shape);
  out.add(dim, unit_vectors(out.element_bits()));
  return out;
}

Layout copies(int rank, Dim dim, int64_t count) {
  Layout out(std::vector<int64_t>(rank, 1));
  for (int64_t have = 1; have < count; have *= 2) out.add(dim, 0);
  return out;
}

Layout transpose(const Layout& layout, const std::vector<int>& permutation) {
  const auto permuted = [&](const std::vector<int64_t>& numbers) {
    std::vector<int64_t> out;
    for (int axis : permutation) out.push_back(numbers[axis]);
    return out;
  };
  const Layout result(permuted(layout.shape()));
  return mapped(layout, result.shape(),
                [&](Bits element) { return result.element(permuted(layout.coordinates(element))); });
}

Layout reshape(const Layout& layout, const std::vector<int64_t>& shape) {
  assert(Layout(shape).element_bits() == layout.element_bits());
  return mapped(layout, shape, [](Bits element) { return element; });
}

Layout slice(const Layout& layout, int axis) {
  std::vector<int64_t> shape = layout.shape();
  shape.erase(shape.begin() + axis);
  const int low = layout.axis_offset(axis), high = low + layout.axis_bits(axis);
  return mapped(layout, shape,
                [&](Bits element) { return (element >> high << low) | (element & ((Bits{1} << low) - 1)); });
}

Layout expand(const Layout& layout, int axis) {
  std::vector<int64_t> shape = layout.shape();
  shape.insert(shape.begin() + axis, 1);
  return reshape(layout, shape);
}

Layout broadcast(const Layout& layout, const std::vector<int64_t>& shape) {
  Layout out = layout;
  for (int axis = 0; axis < layout.rank(); ++axis) {
    if (out.shape()[axis] == shape[axis]) continue;
    assert(out.axis_bits(axis) == 0);
    out = product(out, identity(out.rank(), axis, Dim::kRegister, shape[axis]));
  }
  return out;
}

Layout first(const Layout& layout, int axis, int64_t extent) {
  std::vector<int64_t> shape = layout.shape();
  shape[static_cast<size_t>(axis)] = extent;
  const Layout out(shape);
  return mapped(layout, shape, [&](Bits element) {
    std::vector<int64_t> coordinates = layout.coordinates(element);
    coordinates[static_cast<size_t>(axis)] &= extent - 1;
    return out.element(coordinates);
  });
}

Layout join(const Layout& layout) {
  return product(identity(layout.rank() + 1, layout.rank(), Dim::kRegister, 2), expand(layout, layout.rank()));
}

std::optional<Layout> split(const Layout& layout) {
  std::optional<Layout> rest = divide(layout, identity(layout.rank(), layout.rank() - 1, Dim::kRegister, 2));
  if (!rest || rest->axis_bits(rest->rank() - 1) != 0) return std::nullopt;
  return slice(*rest, rest->rank() - 1);
}

int outer_register_bits(const Layout& layout, int axis) {
  int out = 0;
  for (; out < layout.axis_bits(axis); ++out) {
    const Bits mask = Bits{1} << (layout.axis_offset(axis) + layout.axis_bits(axis) - 1 - out);
    int touched = 0;
    for (Bits basis : layout.columns()) touched += (basis & mask) != 0;
    const Columns& registers = layout.bases(Dim::kRegister);
    if (touched != 1 || std::ranges::find(registers, mask) == registers.end()) break;
  }
  return out;
}

RegisterPart register_part(const Layout& layout, int axis, int bits, Bits index) {
  std::vector<int64_t> shape = layout.shape();
  int64_t& extent = shape[static_cast<size_t>(axis)];
  extent >>= bits;
  const Bits chosen = index << (layout.axis_offset(axis) + layout.axis_bits(axis) - bits);
  RegisterPart out{Layout(shape), {0}};
  for (Dim dim : kDims) {
    for (size_t bit = 0; bit < layout.bases(dim).size(); ++bit) {
      const Bits basis = layout.bases(dim)[bit];
      const std::vector<int64_t> at = layout.coordinates(basis);
      const bool outer = at[static_cast<size_t>(axis)] >= extent;
      if (!outer) out.layout.add(dim, out.layout.element(at));
      if (dim != Dim::kRegister) continue;
      const size_t count = out.registers.size();
      for (size_t i = 0; i < count; ++i) {
        if (outer && (basis & chosen) != 0) out.registers[i] |= Bits{1} << bit;
        if (!outer) out.registers.push_back(out.registers[i] | Bits{1} << bit);
      }
    }
  }
  return out;
}

Deduplicated without_copies_in_registers(const Layout& layout) {
  Deduplicated out{Layout(layout.shape()), {}, {}};
  for (int i = 0; i < layout.bits(Dim::kRegister); ++i) {
    const Bits element = layout.bases(Dim::kRegister)[i];
    const std::optional<Bits> same = Span(out.layout.bases(Dim::kRegister)).solve(element);
    out.kept.push_back(same ? *same : Bits{1} << out.layout.bits(Dim::kRegister));
    if (same) continue;
    out.layout.add(Dim::kRegister, element);
    out.original.push_back(Bits{1} << i);
  }
  for (Dim dim : kDims) {
    if (dim != Dim::kRegister) out.layout.add(dim, layout.bases(dim));
  }
  return out;
}

}  // namespace kiln::codegen::gpu
