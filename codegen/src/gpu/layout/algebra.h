// Layouts made of layouts.
#pragma once

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

// What `outer` holds at the inputs that `inner` names: inner's element is taken as outer's packed inputs.
Layout compose(const Layout& outer, const Layout& inner);

// Where each element is: from an element (as kOffset) to inputs, an axis for each dim, so that the element is the
// packed input: compose(layout, inverse(layout)) is the identity. Of several places the one with zeros in free bits,
// and in bits of later dims. Only of surjective layouts.
Layout inverse(const Layout& layout);

// Copies of `tile` laid out as `rest` says: the tile has the low bits of every dim and axis. divide is its inverse:
// product(tile, *divide(layout, tile)) == layout; nothing where the layout is not made of such tiles.
Layout product(const Layout& tile, const Layout& rest);
std::optional<Layout> divide(const Layout& layout, const Layout& tile);

// Elements 0…extent-1 of one axis in a dim, for products; extent 1 along the other axes.
Layout identity(int rank, int axis, Dim dim, int64_t extent);
// As many equal copies in a dim, for products.
Layout copies(int rank, Dim dim, int64_t count);

// The layouts of ops on shapes, which move no data.
Layout transpose(const Layout& layout, const std::vector<int>& permutation);  // result axis i is axis permutation[i]
Layout reshape(const Layout& layout, const std::vector<int64_t>& shape);      // the row-major number stays
Layout slice(const Layout& layout, int axis);                                 // what a reduction of the axis leaves
Layout expand(const Layout& layout, int axis);                                // a new axis of extent 1
Layout broadcast(const Layout& layout, const std::vector<int64_t>& shape);    // extents 1 grow, in registers
Layout first(const Layout& layout, int axis, int64_t extent);  // others hold copies of the axis' first elements
Layout join(const Layout& layout);                             // a new last axis of extent 2, in a register bit
std::optional<Layout> split(const Layout& layout);             // join's inverse; nothing where a thread has not both

// So many of an axis' highest bits are each what one register bit stands for, and touched by no other input.
int outer_register_bits(const Layout& layout, int axis);
// The part of a tile whose highest `bits` along the axis are `index`, where outer_register_bits has as many.
struct RegisterPart {
  Layout layout;
  std::vector<Bits> registers;  // of each register of `layout`: the whole's
};
RegisterPart register_part(const Layout& layout, int axis, int bits, Bits index);

// Without register bits that hold nothing new.
struct Deduplicated {
  Layout layout;
  Columns original;  // of each register bit of `layout`: that of the original layout
  Columns kept;      // of each register bit of the original: the registers of `layout` with the same element
};
Deduplicated without_copies_in_registers(const Layout& layout);

}  // namespace kiln::codegen::gpu
