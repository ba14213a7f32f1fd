// One device that kernels are measured on: its arrays, and the time of launches.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

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
  virtual Result<void> write(size_t array, std::span<const std::byte> bytes) = 0;
  virtual Result<void> fill(size_t array, uint8_t byte) = 0;
  virtual Result<void> read(size_t array, std::span<std::byte> out) const = 0;
  // From now on restore() puts back what the array holds now.
  virtual Result<void> keep(size_t array) = 0;
  virtual Result<void> restore() = 0;

  // One launch, to its end.
  virtual Result<void> run(const UntypedFunction& function, std::span<const Argument> arguments) = 0;
  // The mean time of so many launches, in microseconds. Kept arrays are restored before them. With cold caches there is
  // one launch, behind a flush; with hot ones a launch that does not count goes before.
  virtual Result<double> time_us(const UntypedFunction& function, std::span<const Argument> arguments, int launches,
                                 Cache cache) = 0;
};

struct CpuOptions {
  int threads = 0;  // that the process was placed for
};
Result<std::unique_ptr<MeasuredDevice>> open_cpu(const CpuOptions& options);
// `kind`: "cuda", "amd".
Result<std::unique_ptr<MeasuredDevice>> open_gpu(const std::string& kind, int ordinal);

}  // namespace kiln::autotune
