// Who lies in the arena when: for limits, and for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/graph/plan.h"
#include "sized_plan.h"

namespace kiln::client {

// A buffer of the arena, from the launch that first touches it to the last one; all of the outermost loop around it.
struct ArenaValue {
  uint32_t first = 0, last = 0;
  uint32_t writer = 0;  // the first launch that may write to it
  uint64_t offset = 0, bytes = 0;
};

struct ArenaUse {
  std::vector<ArenaValue> values;  // by first launch, then by offset
  std::vector<uint64_t> live;      // bytes by launch, each value rounded up to kArenaAlignment
  uint32_t peak = 0;               // the launch at which they are most; 0 where there is none
  std::vector<size_t> largest;     // values that live at the peak, largest first, three at most
};
ArenaUse arena_use(const graph::Plan& plan, const SizedPlan& sized);

// "1024 bytes of launch 3, `linear` (model.py:3:1); …" of the largest.
std::string largest_text(const graph::Plan& plan, const ArenaUse& use);

}  // namespace kiln::client
