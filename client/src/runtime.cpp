// Runs a grid with OpenMP. Each thread begins with a share of its own, contiguous and the same in every launch of as
// many programs: what it wrote in the last one is still in its caches, and in the memory of its node. It takes its
// share in ranges, one call of the entry each, few enough that what a call computes once stays cheap; then it helps the
// others.
#include "kiln/client/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "kiln/dsl/float_mode.h"
#include "lifetime.h"
#include "parallel.h"
#include "shares.h"

namespace kiln::client {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint64_t kMaxMemory = uint64_t{1} << 36;  // an artifact that asks for more is damaged

// A thread's memory of either use, while nobody has it.
struct Idle {
  void* memory = nullptr;
  uint64_t size = 0;
  ~Idle() { std::free(memory); }
};
Idle& idle(ThreadMemory::Use use) { return of_thread<std::array<Idle, 2>>()[static_cast<size_t>(use)]; }

// What the threads of one launch share.
struct Job {
  const CpuLaunch* launch;
  uint64_t programs;
  std::span<Share> shares;
  std::atomic<int32_t> code;
  kiln_failure* failure;  // written by the thread that sets the code
  std::mutex printing;
};

void print_alone(void* data, uint32_t print, uint64_t program, const void* const* values) {
  Job& job = *static_cast<Job*>(data);
  std::lock_guard lock(job.printing);
  job.launch->print(job.launch->print_data, print, program, values);
}

int32_t run_range(Job& job, uint64_t first, uint64_t last, kiln_failure& failure) {
  const CpuLaunch& launch = *job.launch;
  ThreadMemory scratch(ThreadMemory::Use::kScratch);
  kiln_ctx context{};
  context.size = sizeof context;
  context.scratch_bytes = launch.scratch_bytes;
  if (launch.scratch_bytes > 0) {
    context.scratch = scratch.get(launch.scratch_bytes);
    if (context.scratch == nullptr) return kNoScratchMemory;
  }
  context.workspace = launch.workspace;
  context.extents = launch.extents;
  context.print = launch.print != nullptr ? print_alone : nullptr;
  context.print_data = &job;
  const dsl::FloatMode mode;  // the thread's may be any
  const int32_t code = launch.entry(launch.params, launch.grid.data(), first, last, &context);
  failure = context.failure;
  return code;
}

void run_chunk(Job& job, uint64_t first, uint64_t last) {
  kiln_failure failure{};
  const int32_t code = run_range(job, first, last, failure);
  int32_t none = 0;
  if (code != 0 && job.code.compare_exchange_strong(none, code) && job.failure != nullptr) *job.failure = failure;
}

void run_parallel(Job& job, int threads) {
  std::vector<Share> shares(static_cast<size_t>(threads));
  for (uint64_t i = 0; i < shares.size(); ++i) shares[i].begin(job.programs, i, shares.size());
  job.shares = shares;
  // There may be fewer threads; the others' shares are taken all the same.
  in_parallel(threads, [&](int mine, int) {
    take_all(job.shares, static_cast<size_t>(mine), [&](const Range& range) {
      if (job.code.load(std::memory_order_relaxed) != 0) return false;
      run_chunk(job, range.first, range.last);
      return true;
    });
  });
}

int thread_count(const CpuLaunch& launch, uint64_t programs) {
  return static_cast<int>(std::clamp<uint64_t>(programs, 1, static_cast<uint64_t>(threads_to_use(launch.threads))));
}

}  // namespace

ThreadMemory::ThreadMemory(Use use)
    : use_(use), memory_(std::exchange(idle(use).memory, nullptr)), size_(std::exchange(idle(use).size, 0)) {}

ThreadMemory::~ThreadMemory() {
  Idle& place = idle(use_);
  std::free(std::exchange(place.memory, memory_));
  place.size = size_;
}

void* ThreadMemory::get(uint64_t bytes) {
  if (bytes <= size_ && memory_ != nullptr) return memory_;
  if (bytes > kMaxMemory) return nullptr;
  std::free(memory_);
  const uint64_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  memory_ = std::aligned_alloc(kAlignment, rounded);
  size_ = memory_ != nullptr ? rounded : 0;
  return memory_;
}

int32_t run_programs(const CpuLaunch& launch, kiln_failure* failure) {
  const uint64_t programs = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const int threads = thread_count(launch, programs);
  Job job{&launch, programs, {}, 0, failure, {}};
  if (threads == 1) {
    run_chunk(job, 0, programs);
  } else {
    run_parallel(job, threads);
  }
  return job.code.load(std::memory_order_relaxed);
}

}  // namespace kiln::client
