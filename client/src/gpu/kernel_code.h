// A kernel's code for a kind of GPU: loaded on each device where it is launched, once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../reports.h"
#include "device_state.h"
#include "kiln/client/profile.h"
#include "kiln/dsl/artifact.h"
#include "launch_sequence.h"

namespace kiln::client {
struct LaunchOptions;
}  // namespace kiln::client

namespace kiln::client::gpu {

// On one device.
struct LoadedKernel : std::enable_shared_from_this<LoadedKernel> {
  LoadedKernel(std::shared_ptr<DeviceState> of, std::shared_ptr<const LoadedModule> with)
      : device(std::move(of)), module(std::move(with)) {}
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  const std::shared_ptr<DeviceState> device;
  const std::shared_ptr<const LoadedModule> module;
  std::vector<Handle> steps;           // one a step of the sequence
  const std::string* label = nullptr;  // "kernel `scale` (scale.kiln:3:8)"
  void* failure_record = nullptr;      // where the sequence has one
  std::shared_ptr<KernelRing> prints;  // where the sequence has a ring
};

class KernelCode {
 public:
  // Chooses the device for launches without a stream, the first that runs the code, and loads it there.
  static Result<std::shared_ptr<const KernelCode>> create(const dsl::Kernel& kernel, const Artifact& artifact,
                                                          LaunchSequence sequence, const Reports& reports);

  const LaunchSequence& sequence() const { return sequence_; }
  StreamState& default_stream() const { return device_->default_stream; }
  // The code on a device: a look-up where it is loaded.
  Result<const LoadedKernel*> on(DeviceState& device) const {
    const LoadedKernel* known = loaded_[slot(device)].load(std::memory_order_acquire);
    if (known != nullptr && known->device.get() == &device) [[likely]]
      return known;
    return load(device);
  }

 private:
  static constexpr size_t kSlots = 16;  // devices beyond share one, and are looked up under the lock by turns

  KernelCode(LaunchSequence sequence, std::vector<std::byte> code, std::string label)
      : sequence_(std::move(sequence)), code_(std::move(code)), label_(std::move(label)) {}
  static size_t slot(const DeviceState& device) { return static_cast<size_t>(device.driver->info().ordinal) % kSlots; }
  Result<std::shared_ptr<DeviceState>> choose_device() const;
  Result<void> check_fits(const DeviceState& device) const;
  Result<const LoadedKernel*> load(DeviceState& device) const;
  Result<std::shared_ptr<const LoadedKernel>> load_new(DeviceState& device) const;

  const LaunchSequence sequence_;
  const std::vector<std::byte> code_;
  const std::string label_;
  std::shared_ptr<const CheckedKernel> checked_;  // where the sequence has a failure record
  Reports reports_;
  std::shared_ptr<DeviceState> device_;  // of launches without a stream
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const LoadedKernel>> owned_;
  mutable std::array<std::atomic<const LoadedKernel*>, kSlots> loaded_{};  // by ordinal
};

// Queues a launch. `grid` and `bindings` come from the arguments. `span`: what is noted of it; null: nobody profiles.
Result<void> launch(const KernelCode& code, const dsl::Kernel& kernel, const abi::ParamLayout& layout,
                    std::span<const dsl::Argument> arguments, const dsl::Bindings& bindings,
                    const std::array<uint32_t, 3>& grid, const LaunchOptions& options, profile::Span* span);

}  // namespace kiln::client::gpu
