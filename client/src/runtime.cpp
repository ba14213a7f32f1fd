// Runs a grid with OpenMP. The programs are cut into contiguous ranges, one call of the entry each: few enough that
// what a call computes once stays cheap, and with many programs more than the threads, so that a slow thread does not
// hold up the rest.
#include "kiln/client/runtime.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

namespace kiln::client {
namespace {

constexpr size_t kScratchAlignment = 64;
constexpr uint64_t kMaxScratch = uint64_t{1} << 36;  // an artifact that asks for more is damaged

// A thread keeps its scratch from launch to launch; it grows and goes with the thread.
class Scratch {
 public:
  // Null when there is no memory.
  void* get(uint64_t bytes) {
    if (bytes <= size_) return memory_.get();
    if (bytes > kMaxScratch) return nullptr;
    const size_t rounded = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    memory_.reset(std::aligned_alloc(kScratchAlignment, rounded));
    size_ = memory_ ? rounded : 0;
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

// OpenMP orders memory between the launching thread and the others at fork and join, but Debian's libgomp is not
// instrumented, so the thread sanitizer is told.
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
void happens_before(void* address) { __tsan_release(address); }
void happens_after(void* address) { __tsan_acquire(address); }
#else
void happens_before(void*) {}
void happens_after(void*) {}
#endif

// What the threads of one launch share.
struct Job {
  const CpuLaunch* launch;
  uint64_t programs;
  uint64_t chunk;
  std::atomic<uint64_t> next;
  std::atomic<int32_t> code;
};

int32_t run_range(const CpuLaunch& launch, uint64_t first, uint64_t last) {
  thread_local Scratch scratch;
  kiln_ctx context{sizeof(kiln_ctx), nullptr, launch.scratch_bytes};
  if (launch.scratch_bytes > 0) {
    context.scratch = scratch.get(launch.scratch_bytes);
    if (context.scratch == nullptr) return kNoScratchMemory;
  }
  return launch.entry(launch.params, launch.grid.data(), first, last, &context);
}

void take_chunks(Job& job) {
  happens_after(&job);
  for (;;) {
    const uint64_t first = job.next.fetch_add(1, std::memory_order_relaxed) * job.chunk;
    if (first >= job.programs || job.code.load(std::memory_order_relaxed) != 0) break;
    const int32_t code = run_range(*job.launch, first, std::min(first + job.chunk, job.programs));
    int32_t none = 0;
    if (code != 0) job.code.compare_exchange_strong(none, code);
  }
  happens_before(&job);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KILN_NO_RACE_CHECK __attribute__((no_sanitize("thread")))
#endif
#elif defined(__SANITIZE_THREAD__)
#define KILN_NO_RACE_CHECK __attribute__((no_sanitize("thread")))
#endif
#ifndef KILN_NO_RACE_CHECK
#define KILN_NO_RACE_CHECK
#endif

// Only the hand-over of `job` by OpenMP is hidden from race detectors; the work itself is not.
KILN_NO_RACE_CHECK void run_parallel(Job& job, int threads) {
#pragma omp parallel num_threads(threads)
  take_chunks(job);
}

int thread_count(const CpuLaunch& launch, uint64_t programs) {
  if (omp_in_parallel()) return 1;
  const int wanted = launch.threads > 0 ? launch.threads : omp_get_max_threads();
  return static_cast<int>(std::clamp<uint64_t>(programs, 1, static_cast<uint64_t>(std::max(wanted, 1))));
}

uint64_t chunk_size(uint64_t programs, uint64_t threads) {
  if (programs < 16 * threads) return (programs + threads - 1) / threads;
  return programs / (4 * threads);
}

}  // namespace

int32_t run_programs(const CpuLaunch& launch) {
  const uint64_t programs = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const int threads = thread_count(launch, programs);
  if (threads == 1) return run_range(launch, 0, programs);
  Job job{&launch, programs, chunk_size(programs, static_cast<uint64_t>(threads)), 0, 0};
  happens_before(&job);
  run_parallel(job, threads);
  happens_after(&job);
  return job.code.load(std::memory_order_relaxed);
}

}  // namespace kiln::client
