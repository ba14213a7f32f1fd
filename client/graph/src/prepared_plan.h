// A plan for sizes, made ready for CPUs: variants chosen, grids evaluated, parameter blocks filled but for addresses.
// Made by the first run, and used by those behind it while alignments and variants are the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kiln/client/handle.h"
#include "kiln/graph/plan.h"
#include "prepared.h"
#include "sized_plan.h"

namespace kiln::client {

struct PreparedPlan {
  struct Patch {
    uint32_t at = 0;      // in `blocks`
    uint32_t buffer = 0;  // whose address goes there
    uint64_t offset = 0;  // behind it
  };

  std::vector<uint8_t> alignment;                       // addresses of buffers, modulo 16
  std::vector<std::optional<PreparedLaunch>> launches;  // none: launched one by one
  std::vector<SequenceStep> steps;                      // of all launches, in order
  std::vector<uint32_t> step_end;                       // by launch
  std::vector<std::byte> blocks;                        // parameters of all launches
  std::vector<Patch> patches;
  uint64_t workspace_bytes = 0;  // of the step that wants most

  bool fits(std::span<std::byte* const> bases, const graph::Plan& plan, std::span<const UntypedFunction> kernels) const;
  // The steps of launches [first, last).
  std::span<const SequenceStep> steps_of(size_t first, size_t last) const {
    const uint32_t begin = first == 0 ? 0 : step_end[first - 1];
    return std::span(steps).subspan(begin, step_end[last - 1] - begin);
  }
};

// What is ready of one SizedPlan. Thread-safe, and waits for nobody.
class PreparedPlans {
 public:
  // Null: another thread prepares just now, or there have been too many; then launches go one by one.
  const PreparedPlan* get(const graph::Plan& plan, const SizedPlan& sized, std::span<const UntypedFunction> kernels,
                          std::span<std::byte* const> bases);

 private:
  static constexpr size_t kMost = 64;

  std::mutex making_;
  std::vector<std::unique_ptr<const PreparedPlan>> all_;  // kept, for runs that still use them
  std::atomic<const PreparedPlan*> newest_{nullptr};
};

}  // namespace kiln::client
