// What the drivers of both vendors share: numbers of statuses, libraries that are opened once, lists of devices.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kiln/client/gpu.h"
#include "kiln/dsl/result.h"
#include "lifetime.h"

namespace kiln::client::gpu {

// CUresult and hipError_t, whose numbers are the same where both have an error.
using Status = int;
inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotReady = 600;  // an event that is still to come
inline constexpr Status kIllegalAddress = 700;
inline constexpr Status kLaunchOutOfResources = 701;
inline constexpr Status kLaunchTimeout = 702;
inline constexpr Status kAssert = 710;
inline constexpr Status kLaunchFailure = 719;

// What a caller is told; `is_sticky`: after it only a new process helps.
ErrorCode code_of(Status status, bool is_sticky);

// No driver outlives a fork(): in the child, nothing that the parent has begun with it goes on.
Error not_after_fork();

// Libraries by the path that was asked for: one that opened stays for the life of the process, others are tried again.
template <class Api>
class OpenedLibraries {
 public:
  template <class Open>
  Result<const Api*> get(const std::string& path, const Open& open) {
    if (birth_.of_parent() && is_open_.load(std::memory_order_relaxed)) return not_after_fork();
    const std::lock_guard lock(mutex_);
    std::unique_ptr<const Api>& api = opened_[path];
    if (api == nullptr) {
      auto loaded = open(path);
      if (!loaded) return loaded.error();
      api = std::move(*loaded);
      is_open_.store(true, std::memory_order_relaxed);
    }
    return api.get();
  }

 private:
  const Birth birth_;
  std::atomic<bool> is_open_{false};
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const Api>> opened_;
};

// `inspect` of each of so many devices, or the first error.
template <class Inspect>
Result<std::vector<DeviceInfo>> inspect_all(int count, const Inspect& inspect) {
  std::vector<DeviceInfo> out;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Result<DeviceInfo> info = inspect(ordinal);
    if (!info) return info.error();
    out.push_back(std::move(*info));
  }
  return out;
}

// Of a driver that sees no device, why that may be: "; this process may not open /dev/kfd: Permission denied". Empty
// where it may open those of the files that there are.
std::string closed_files(std::span<const char* const> files);
inline constexpr const char* kCudaFiles[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"};
inline constexpr const char* kAmdFiles[] = {"/dev/kfd", "/dev/dri/renderD128"};

// "there is no device cuda:3; the driver sees 2", where that is so.
Result<void> check_ordinal(const std::string& kind, int ordinal, int count, const char* who_sees);

}  // namespace kiln::client::gpu
