// How a tile comes from one layout into another: the cheapest way that algebra finds.
//
// Let S and D be the two layouts, both on the same threads. Data moves only as far as it has to:
//   registers  what each register of D holds is in a register of S of the same thread, for all threads in the same one
//   shuffle    … is in some lane of the same warp
//   shared     … is in the same block
// Plans say what moves where as layouts again: maps linear over GF(2), of which code is generated, and which the tests
// execute on the host.
#pragma once

#include <variant>

#include "gpu/layout/conversion_shared.h"
#include "gpu/layout/conversion_shuffle.h"
#include "gpu/layout/layout.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

// Register i of the result is register from[i] of the source.
struct RegisterMove {
  std::vector<int> from;
  bool nothing = false;  // every register stays where it is
};

struct ConversionPlan {
  std::variant<RegisterMove, Shuffle, RoundTrip> how;
  // Shuffles and round trips number only registers with elements of their own:
  Columns source_registers;  // of each such bit: the source's register
  Columns result_registers;  // of each register bit of the result: such a number
};

// An error where data would have to leave its block, or does not fit into shared memory.
Result<ConversionPlan> plan_conversion(const Layout& source, const Layout& result, int element_bits,
                                       const LaneFacts& facts);

// Of layouts without copies in registers. Nothing where the way is closed.
std::optional<RegisterMove> plan_registers(const Layout& source, const Layout& result);

}  // namespace kiln::codegen::gpu
