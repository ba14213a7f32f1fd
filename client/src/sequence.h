// Launches on CPUs one after the other, in one parallel region.
//
//   thread 0   alone  alone │ share of wide │ share of wide │ alone │ …
//   thread 1   waits        │ share of wide │ share of wide │ waits │ …
//
// A thread keeps its share from step to step (shares.h). What is small thread 0 does alone; where nothing is wide there
// is no region at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

#include "kiln/abi/cpu_abi.h"

namespace kiln::client {

struct SequenceStep {
  kiln_entry_fn entry = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint64_t programs = 1;
  uint64_t scratch_bytes = 0;  // a thread
  uint32_t params = 0;         // where its parameter block begins among `blocks`
  uint32_t launch = 0;         // whose step it is
  bool is_wide = false;        // all threads share it
};

struct Sequence {
  std::span<const SequenceStep> steps;
  const std::byte* blocks = nullptr;
  void* workspace = nullptr;  // for each step that wants one
  int threads = 1;            // as threads_to_use() says
  std::stop_token cancel = {};
};

struct SequenceEnd {
  int32_t code = 0;  // of the step that failed, as of run_programs(); 0: none did
  bool is_cancelled = false;
  uint32_t step = 0;  // which one failed, or was to come
  kiln_failure failure = {};
};

// Steps behind one that fails do not run. Only where parts_run_at_once().
SequenceEnd run_sequence(const Sequence& sequence);

}  // namespace kiln::client
