// A device on the host: threads with registers, lanes that shuffle, and shared memory with banks. It executes plans of
// conversions and reductions as the manuals describe the instructions, knowing nothing of layouts.
#pragma once

#include <functional>

#include "gpu/layout/conversion.h"
#include "gpu/layout/reduction.h"

namespace kiln::codegen::gpu {

using Value = uint64_t;
constexpr Value kNothing = ~Value{0};

// The registers of all threads: of lane l of warp w of block b in at(l, w, b).
struct Threads {
  int64_t lanes, warps, blocks, registers;
  std::vector<Value> values;

  // Of this shape, all registers undefined.
  explicit Threads(const Layout& layout);
  Value* at(int64_t lane, int64_t warp, int64_t block) {
    return &values[static_cast<size_t>(((block * warps + warp) * lanes + lane) * registers)];
  }
  bool operator==(const Threads&) const = default;
};

// For each thread: its place, and its registers.
void for_each_thread(Threads& threads, const std::function<void(const Index& thread, Value* registers)>& act);

// Each register holds value(element).
Threads spread(const Layout& layout, const std::function<Value(Bits element)>& value);

// What the accesses of one warp took.
struct Wavefronts {
  int64_t store = 0, load = 0;
};

// The registers of the result; where something goes wrong, some hold kNothing.
Threads execute(const ConversionPlan& plan, Threads source, const Layout& result, int element_bits,
                const LaneFacts& facts, Wavefronts* wavefronts = nullptr);

// Sums, in the result's layout.
Threads execute(const ReductionPlan& plan, Threads source, int element_bits, const LaneFacts& facts);

}  // namespace kiln::codegen::gpu
