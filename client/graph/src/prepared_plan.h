// A plan for sizes, made ready for CPUs: variants chosen, grids evaluated, parameter blocks filled but for addresses.
// Made by the first run, and used by those behind it while alignments and variants are the same.
#pragma once

#include <array>
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

class TunedConfigs;

struct PreparedPlan {
  // A launch in one of its passes. Steps name it by its number.
  struct Instance {
    uint32_t launch = 0;
    PreparedLaunch prepared;
    std::array<int64_t, graph::kMostCounters> counters = {};
  };
  // Launches that run together: one, or the passes of a loop that is in no other.
  struct Unit {
    uint32_t first = 0, count = 0;  // launches
    bool is_ready = false;          // else its launches go one by one
    uint32_t step_end = 0;          // its steps begin where those of the unit before it end
  };
  struct Patch {
    uint32_t at = 0;      // in `blocks`
    uint32_t buffer = 0;  // whose address goes there
    uint64_t offset = 0;  // behind it
  };

  std::vector<uint8_t> alignment;  // addresses of buffers, modulo 16
  // What its launches are made of; another version makes it outdated.
  struct Version {
    const FunctionState* function;  // or what it is tuned by
    const TunedConfigs* configs;
    const void* version;
    bool is_current() const;
    bool is_of_same(const Version& other) const { return function == other.function && configs == other.configs; }
  };
  std::vector<Version> versions;
  std::vector<Unit> units;          // all launches
  std::vector<Instance> instances;  // of units that are ready
  std::vector<SequenceStep> steps;
  std::vector<std::byte> blocks;  // parameters of all instances
  std::vector<Patch> patches;
  uint64_t workspace_bytes = 0;  // of the step that wants most

  bool is_current() const;
  bool has_alignment(std::span<std::byte* const> bases) const;
  bool fits(std::span<std::byte* const> bases) const { return has_alignment(bases) && is_current(); }
  // The steps of units [first, last).
  std::span<const SequenceStep> steps_of(size_t first, size_t last) const {
    const uint32_t begin = first == 0 ? 0 : units[first - 1].step_end;
    return std::span(steps).subspan(begin, units[last - 1].step_end - begin);
  }
};

// What is ready of one SizedPlan. Thread-safe, and waits for nobody.
class PreparedPlans {
 public:
  // Null: another thread prepares just now, or there have been too many; then launches go one by one.
  const PreparedPlan* get(const graph::Plan& plan, const SizedPlan& sized, std::span<const UntypedFunction> kernels,
                          std::span<std::byte* const> bases);

 private:
  static constexpr size_t kMostAlignments = 64;  // that are current
  static constexpr size_t kMost = 1024;          // outdated ones too

  std::mutex making_;
  std::vector<std::unique_ptr<const PreparedPlan>> all_;  // kept, for runs that still use them
  std::atomic<const PreparedPlan*> newest_{nullptr};
};

}  // namespace kiln::client
