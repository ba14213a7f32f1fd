// The layouts of accesses to global memory: a warp's accesses fall into as few sectors as they can, and each thread
// moves up to 16 bytes at once.
#pragma once

#include <optional>

#include "gpu/block/block_shape.h"
#include "kiln/dsl/ir.h"
#include "passes/axis_info.h"

namespace kiln::codegen::gpu {

// The distance of neighbours along each axis of a tile of ints or pointers, in elements; nothing where it is not known
// to be constant.
using Strides = std::vector<std::optional<int64_t>>;

// By value: of int and pointer tiles.
std::vector<Strides> strides_of(const dsl::Kernel& kernel);

// What the accesses of a kernel agree upon for tiles of one shape.
struct AccessShape {
  std::vector<int> order;  // axes, the one whose neighbours are neighbours in memory first
  int64_t vector = 1;      // elements along it that a thread moves at once
  int64_t bytes = 1;       // of an element
  // Along this axis a thread has neighbours, and as many as it can: it is scanned.
  std::optional<int> scanned = std::nullopt;
  // Rows along this axis are reduced: where there are several for a warp, each has as few lanes as fill a line of
  // memory, for lanes have to exchange what they hold of a row.
  std::optional<int> reduced = std::nullopt;
  // Along this axis alone all threads lie, and a thread has the others as a whole: topk selects from their rows.
  std::optional<int> ordered = std::nullopt;
};
AccessShape access_shape(const dsl::Kernel& kernel, const dsl::Op& access, const std::vector<AxisInfo>& info,
                         const std::vector<Strides>& strides);

Layout coalesced(const std::vector<int64_t>& shape, const AccessShape& access, const BlockShape& block);

}  // namespace kiln::codegen::gpu
