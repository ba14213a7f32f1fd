// What registers of other threads hold, in the patterns of scans and sorts: everyone fetches from the place that
// differs from his own in the same bits.
#pragma once

#include "gpu/context.h"
#include "gpu/layout/scan.h"

namespace kiln::codegen::gpu {

// Register r of the result: register r ^ reg of lane l ^ lane in warp w ^ warp. Equal registers are fetched once.
Registers fetch(Context& ctx, const Registers& own, const ScanStep& step);

// Whether an index has an odd number of a mask's bits: known of the register, computed of the thread (null: even).
class Parity {
 public:
  Parity(Context& ctx, const Index& mask);
  bool of_register(size_t reg) const { return (__builtin_popcountll(reg & reg_) & 1) != 0; }
  Value* of_thread() const { return thread_; }

 private:
  Bits reg_;
  Value* thread_ = nullptr;
};

}  // namespace kiln::codegen::gpu
