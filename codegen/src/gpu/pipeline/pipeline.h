// Which loads of a loop are copied into shared memory ahead of the iterations that want them.
//
//   %acc = for %k … {num_stages = 3} {
//     %p = addptr %base, f(%k)           ; slice: what the address is made of
//     %a = load %p, %mask                ; staged: copied two iterations before it is read
//     %s = dot %a, %b, %sum
//     yield %s
//   }
//
// Where threads have no asynchronous copies they load into registers at the head of an iteration, and store into shared
// memory at its end, one stage fewer ahead.
//
// A load is staged if it feeds a dot by matrix instructions, through views and cheap elementwise ops or by itself; its
// address and mask depend on nothing that the loop computes for the dot, only on the index, on what comes from outside,
// on carried values that are stepped by such, and on what is looked up with these in a table that nobody writes (the
// pages of a cache); a thread can copy 4 bytes or more at once; and what the mask leaves out becomes zero. Carried
// values of the slice are carried twice: once ahead, for the copies. What is looked up is loaded by whoever wants it,
// in the layout of the copies; boxes of a bulk engine are not looked up.
#pragma once

#include <map>
#include <set>

#include "gpu/layout/coalesce.h"
#include "gpu/layout/conversion.h"
#include "gpu/pipeline/bulk_tile.h"
#include "gpu/shared/shared_panels.h"

namespace kiln::codegen::gpu {

class TargetInfo;

struct StagedLoad {
  const dsl::Op* load = nullptr;
  SharedPanels panels;
  std::optional<BulkTile> bulk;   // copied by the engine of bulk_engine.h; else by the threads:
  Layout copies;                  // who copies what
  int64_t vector = 1;             // elements at once
  std::optional<RoundTrip> trip;  // copies that go through registers
  // Blocks of a cluster may load it for each other, where these scalars are the same in both (cluster.h).
  std::optional<std::set<dsl::ValueId>> shared_by = {};
};

struct Pipeline {
  int stages = 2;  // of each multi-buffer
  std::vector<StagedLoad> loads;
  std::vector<StagedLoad> program_operands;  // before the loop, of persistent blocks, in bulk (program_operands.h)
  std::vector<const dsl::Op*> slice;         // in program order
  std::vector<size_t> ahead;                 // numbers of carried values in it

  // Whether some, and all, of its loads are copied by an engine.
  bool has_bulk() const;
  bool is_all_bulk() const;
  // Whether its copies go through registers.
  bool is_through_registers() const { return !loads.empty() && loads[0].trip.has_value(); }
  // By its stages and, through registers, what is in these.
  int asked_stages() const;
};

// By loop. One gets fewer stages where they would not fit; where what stands beside them does not, lower.cpp asks
// again.
std::map<const dsl::Op*, Pipeline> plan_pipelines(const dsl::Kernel& kernel, const TargetInfo& target,
                                                  const BlockShape& block, const std::vector<AxisInfo>& info,
                                                  const std::vector<Strides>& strides);

}  // namespace kiln::codegen::gpu
