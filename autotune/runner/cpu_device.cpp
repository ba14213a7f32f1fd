// The machine's own CPU, to whose cores placement.cpp ties the process before this begins. Caches are made cold by
// pushing out the lines of the arrays, one by one where the processor has an instruction for that, else and for arrays
// beyond the last cache by reading a buffer twice as large as it; OpenMP's threads do either, so that they are awake
// when the launch begins.
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "device.h"
#include "model/hardware.h"

namespace kiln::autotune {
namespace {

constexpr size_t kAlignment = 4096;
constexpr size_t kLine = 64;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
struct Memory {
  std::unique_ptr<std::byte, Free> data;
  size_t bytes = 0;
};

Result<Memory> allocate_memory(uint64_t bytes) {
  const uint64_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  Memory out{std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded))), bytes};
  if (!out.data) return error(ErrorCode::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes");
  return out;
}

// OpenMP ends threads that a launch does not need and makes others later, which begin where the first one runs. So each
// ties itself to its CPU, in all that the device does.
class ThreadTies {
 public:
  explicit ThreadTies(std::vector<int> cpus) : cpus_(std::move(cpus)) {}

  void tie() const {
    static thread_local int tied = -1;
    const auto number = static_cast<size_t>(omp_get_thread_num());
    if (number >= cpus_.size() || tied == cpus_[number]) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(cpus_[number]), &one);
    if (::sched_setaffinity(0, sizeof one, &one) == 0) tied = cpus_[number];
  }
  void tie_all() const {
#pragma omp parallel
    tie();
  }

 private:
  std::vector<int> cpus_;
};

// What is at `from` again and again, by all threads, each its part.
void copy_repeated(const ThreadTies& ties, std::byte* to, size_t bytes, const std::byte* from, size_t period) {
  const auto pages = static_cast<int64_t>((bytes + kAlignment - 1) / kAlignment);
  ties.tie_all();
#pragma omp parallel for schedule(static)
  for (int64_t page = 0; page < pages; ++page) {
    const size_t end = std::min(static_cast<size_t>(page + 1) * kAlignment, bytes);
    for (size_t at = static_cast<size_t>(page) * kAlignment; at < end;) {
      const size_t count = std::min(end - at, period - at % period);
      std::memcpy(to + at, from + at % period, count);
      at += count;
    }
  }
}

void copy_pages(const ThreadTies& ties, std::byte* to, const std::byte* from, size_t bytes) {
  copy_repeated(ties, to, bytes, from, bytes);
}

RunnerInfo describe(int threads) {
  RunnerInfo out;
  out.target = "cpu";
  out.device = cpu_name();
  out.threads = threads;
  out.fingerprint = cpu_hardware(threads);
  return out;
}

class Cpu final : public MeasuredDevice {
 public:
  Cpu(int threads, std::vector<int> cpus)
      : info_(describe(threads)), cache_bytes_(last_cache_bytes()), ties_(std::move(cpus)) {}
  const RunnerInfo& info() const override { return info_; }

  Result<void> allocate(std::span<const uint64_t> bytes) override {
    kept_.clear();
    arrays_.clear();
    for (uint64_t size : bytes) {
      auto memory = allocate_memory(size);
      if (!memory) return memory.error();
      arrays_.push_back(std::move(*memory));
    }
    return {};
  }
  void* data(size_t array) const override { return arrays_[array].data.get(); }
  Result<void> write(size_t array, std::span<const std::byte> bytes) override {
    const Memory& to = arrays_[array];
    if (!bytes.empty()) copy_repeated(ties_, to.data.get(), to.bytes, bytes.data(), bytes.size());
    return {};
  }
  Result<void> fill(size_t array, uint8_t byte) override {
    std::memset(arrays_[array].data.get(), byte, arrays_[array].bytes);
    return {};
  }
  Result<void> read(size_t array, std::span<std::byte> out) const override {
    copy_pages(ties_, out.data(), arrays_[array].data.get(), out.size());
    return {};
  }
  Result<void> keep(size_t array) override {
    auto memory = allocate_memory(arrays_[array].bytes);
    if (!memory) return memory.error();
    copy_pages(ties_, memory->data.get(), arrays_[array].data.get(), memory->bytes);
    kept_[array] = std::move(*memory);
    return {};
  }
  Result<void> restore() override {
    for (const auto& [array, original] : kept_)
      copy_pages(ties_, arrays_[array].data.get(), original.data.get(), original.bytes);
    return {};
  }

  Result<void> run(const UntypedFunction& function, std::span<const Argument> arguments) override {
    ties_.tie_all();
    return launch(function, arguments);
  }
  Result<std::vector<double>> time_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                      int launches, Cache cache, int times) override;
  bool apart_from_host() const override { return false; }

 private:
  Result<void> launch(const UntypedFunction& function, std::span<const Argument> arguments) {
    const Working working(worked_us_);
    return function.launch(arguments, {.threads = info_.threads, .print = [](const dsl::PrintRecord&) {}});
  }
  Result<double> time_once(const UntypedFunction& function, std::span<const Argument> arguments, int launches,
                           Cache cache);
  void push_out();
  void flush_lines(const Memory& memory);
  void sweep();

  const RunnerInfo info_;
  const uint64_t cache_bytes_;
  const ThreadTies ties_;
  std::vector<Memory> arrays_;
  std::map<size_t, Memory> kept_;
  Memory sweep_;
  volatile uint64_t swept_ = 0;  // what was read, so that the compiler leaves the reading in
};

Result<std::vector<double>> Cpu::time_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                         int launches, Cache cache, int times) {
  std::vector<double> out;
  for (int i = 0; i < times; ++i) {
    auto us = time_once(function, arguments, launches, cache);
    if (!us) return us.error();
    out.push_back(*us);
  }
  return out;
}

Result<double> Cpu::time_once(const UntypedFunction& function, std::span<const Argument> arguments, int launches,
                              Cache cache) {
  (void)restore();
  if (cache == Cache::kCold) {
    push_out();
    launches = 1;
  } else {
    if (auto warm = run(function, arguments); !warm) return warm.error();
    (void)restore();
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) {
    if (auto done = launch(function, arguments); !done) return done.error();
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  return time.count() / launches;
}

void Cpu::push_out() {
  ties_.tie_all();
  uint64_t total = 0;
  for (const Memory& memory : arrays_) total += memory.bytes;
#if defined(__x86_64__)
  if (total <= 2 * cache_bytes_) {
    for (const Memory& memory : arrays_) flush_lines(memory);
    return;
  }
#endif
  sweep();
}

void Cpu::flush_lines(const Memory& memory) {
#if defined(__x86_64__)
  const auto lines = static_cast<int64_t>((memory.bytes + kLine - 1) / kLine);
#pragma omp parallel for schedule(static)
  for (int64_t line = 0; line < lines; ++line) _mm_clflush(memory.data.get() + static_cast<size_t>(line) * kLine);
#else
  (void)memory;
#endif
}

void Cpu::sweep() {
  if (!sweep_.data) {
    auto memory = allocate_memory(2 * cache_bytes_);
    if (!memory) return;  // then the arrays, which fitted, are themselves larger than the cache
    sweep_ = std::move(*memory);
    std::memset(sweep_.data.get(), 1, sweep_.bytes);
  }
  uint64_t sum = 0;
  const auto lines = static_cast<int64_t>(sweep_.bytes / kLine);
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (int64_t line = 0; line < lines; ++line) {
    sum += static_cast<uint64_t>(sweep_.data.get()[static_cast<size_t>(line) * kLine]);
  }
  swept_ = sum;
}

}  // namespace

Result<std::unique_ptr<MeasuredDevice>> open_cpu(const CpuOptions& options) {
  return std::unique_ptr<MeasuredDevice>(std::make_unique<Cpu>(std::max(options.threads, 1), options.cpus));
}

}  // namespace kiln::autotune
