// A layout says which element of a tile each register of each thread holds. It is a map linear over GF(2): the element
// of an index is the xor of what its bits stand for.
//
//   blocked, 8x16, two columns a register pair:  register=[(0,1)] lane=[(0,2), (0,4), (0,8), (1,0), (2,0)] warp=[(4,0)]
//   lane 5, register 1 of warp 1 holds element   (0,2) ^ (0,8) ^ (0,1) ^ (4,0) = (4, 11)
//
// Shared memory is a layout too: its only input is the offset, in elements. An input bit that stands for element 0 is
// free: threads that differ in it hold the same element. Extents are powers of two; a caller rounds others up.
//
// An element is packed as its row-major number, so the bits of the last axis are the lowest. Inputs are packed with the
// register's bits lowest, then lane, warp, block, offset.
//
// The idea is that of "Linear Layouts" (arXiv 2505.23819).
#pragma once

#include <array>
#include <string>

#include "gpu/layout/gf2.h"

namespace kiln::codegen::gpu {

enum class Dim : uint8_t { kRegister, kLane, kWarp, kBlock, kOffset };
constexpr std::array kDims = {Dim::kRegister, Dim::kLane, Dim::kWarp, Dim::kBlock, Dim::kOffset};

// Which of a layout's inputs; those that it does not have are 0.
struct Index {
  Bits reg = 0, lane = 0, warp = 0, block = 0, offset = 0;
};

class Layout {
 public:
  Layout() = default;
  // No inputs yet.
  explicit Layout(const std::vector<int64_t>& shape);

  // The next bit of `dim` stands for `element`.
  void add(Dim dim, Bits element);
  void add(Dim dim, const Columns& elements);

  int rank() const { return static_cast<int>(axis_bits_.size()); }
  std::vector<int64_t> shape() const;
  int axis_bits(int axis) const { return axis_bits_[axis]; }
  // Where an axis begins in a packed element.
  int axis_offset(int axis) const;
  int element_bits() const { return axis_offset(-1); }

  const Columns& bases(Dim dim) const { return bases_[static_cast<size_t>(dim)]; }
  int bits(Dim dim) const { return static_cast<int>(bases(dim).size()); }
  int64_t size(Dim dim) const { return int64_t{1} << bits(dim); }
  // The bases of all dims, as inputs are packed.
  Columns columns() const;

  Bits at(const Index& index) const;
  // The element at packed inputs.
  Bits at_packed(Bits inputs) const { return multiply(columns(), inputs); }
  std::vector<int64_t> coordinates(Bits element) const;
  Bits element(const std::vector<int64_t>& coordinates) const;

  bool injective() const;
  bool surjective() const;
  // Bits of `dim` that change nothing by themselves.
  Bits free_mask(Dim dim) const;
  // So many different elements of its own each thread has.
  int64_t elements_per_thread() const;
  // Aligned groups of so many neighbours along the axis are in one thread, in registers that do not depend on the
  // thread.
  int64_t contiguous_per_thread(int axis) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<int> axis_bits_;
  std::array<Columns, kDims.size()> bases_;
};

// "[8, 16]: register=[(0,1)] lane=[(0,2), …]"; dims without bits are left out.
std::string to_string(const Layout& layout);

// A layout by a table: each step hands the lowest bits of an axis that are still unused to the next bits of a dim.
// Where the axis has no more, or is kNoAxis, the bits of the dim are free.
struct Step {
  Dim dim;
  int axis;
  int bits;
};
constexpr int kNoAxis = -1;
Layout from_steps(const std::vector<int64_t>& shape, const std::vector<Step>& steps);

// The layout of loads and stores: a thread has per_thread[axis] neighbours along each axis, lanes[axis] such threads
// and warps[axis] such warps lie side by side, order[0] being the axis that runs fastest. Registers repeat that until
// the tile is covered; threads beyond the tile hold copies.
Layout blocked(const std::vector<int64_t>& shape, const std::vector<int64_t>& per_thread,
               const std::vector<int64_t>& lanes, const std::vector<int64_t>& warps, const std::vector<int>& order);

}  // namespace kiln::codegen::gpu
