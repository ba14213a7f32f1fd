// One device that kernels are measured on: its arrays, and the time of launches.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kiln/autotune/runner.h"
#include "kiln/client/handle.h"

namespace kiln::autotune {

using client::Argument;
using client::UntypedFunction;

class MeasuredDevice {
 public:
  virtual ~MeasuredDevice() = default;
  virtual const RunnerInfo& info() const = 0;

  // Arrays of so many bytes, numbered from 0, in place of those there were.
  virtual Result<void> allocate(std::span<const uint64_t> bytes) = 0;
  virtual void* data(size_t array) const = 0;
  // From its beginning, again and again until it is full.
  virtual Result<void> write(size_t array, std::span<const std::byte> bytes) = 0;
  virtual Result<void> fill(size_t array, uint8_t byte) = 0;
  virtual Result<void> read(size_t array, std::span<std::byte> out) const = 0;
  // From now on restore() puts back what the array holds now.
  virtual Result<void> keep(size_t array) = 0;
  virtual Result<void> restore() = 0;

  // One launch, to its end.
  virtual Result<void> run(const UntypedFunction& function, std::span<const Argument> arguments) = 0;
  // The mean time of so many launches, in microseconds, `times` times. Kept arrays are restored before each time. With
  // cold caches there is one launch, behind a flush; with hot ones a launch that does not count goes before.
  virtual Result<std::vector<double>> time_us(const UntypedFunction& function, std::span<const Argument> arguments,
                                              int launches, Cache cache, int times) = 0;
  // Whether the host may work while the device is measured.
  virtual bool apart_from_host() const = 0;

  // How long the device has worked so far: launches, what goes before them, and copies; not what the host does between.
  double worked_us() const { return worked_us_; }

 protected:
  // Counts the time of its scope, at whose end the device has nothing to do any more.
  class Working {
   public:
    explicit Working(double& sum) : sum_(sum) {}
    ~Working() { sum_ += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_).count(); }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    double& sum_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };
  mutable double worked_us_ = 0;
};

struct CpuOptions {
  int threads = 0;
  std::vector<int> cpus = {};  // one for each thread to be tied to; empty: they run where they like
};
Result<std::unique_ptr<MeasuredDevice>> open_cpu(const CpuOptions& options);
// `kind`: "cuda", "amd".
Result<std::unique_ptr<MeasuredDevice>> open_gpu(const std::string& kind, int ordinal);

}  // namespace kiln::autotune
