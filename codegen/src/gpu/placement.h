// Where tiles live: the layout of each value of a kernel over the threads of a block.
//
//   %p = addptr %base, %offsets       no home: addresses are computed wherever they are wanted
//   %x = load %p                      blocked: neighbours along the contiguous axis in one thread, then in one warp
//   %m = reduce %x {axis = 1}         slice of %x's: each thread that has a row's elements has its maximum
//   %b = broadcast %m                 no home: in %x's layout it is the register that is there already
//   %y = sub %x, %b                   as %x
//
// A value without a home is cheap, or another view of one that has one. Asked for in some layout it asks its operands
// for what that takes; so index arithmetic, masks and broadcasts never move between threads.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gpu/block/block_shape.h"
#include "gpu/pipeline/pipeline.h"
#include "kiln/dsl/ir.h"
#include "passes/axis_info.h"

namespace kiln::codegen::gpu {

class TargetInfo;

struct Placement {
  std::vector<std::optional<Layout>> home;  // by value
  // The layout in which an op wants its operands (load, store, reduce…): that of the tile it works on.
  std::map<const dsl::Op*, Layout> wanted;
  // Loops whose loads are copied ahead, and these loads: their tiles are at home in shared memory.
  std::map<const dsl::Op*, Pipeline> pipelines;
  std::set<const dsl::Op*> staged;
  // Loads of tiles that their addresses need, and of row_operands.h: without a home, whoever wants them loads them.
  std::set<const dsl::Op*> address_operands;
  // Each topk that selects candidates, and how many (select.h).
  std::map<const dsl::Op*, int64_t> selected;
};

// `info`: axis_info of the kernel, by value.
Placement place(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block,
                const std::vector<AxisInfo>& info);

}  // namespace kiln::codegen::gpu
