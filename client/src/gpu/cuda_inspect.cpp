#include "cuda_inspect.h"

#include <array>

namespace kiln::client::gpu::cuda {
namespace {

// Asks, and keeps the first failure.
class Questions {
 public:
  explicit Questions(const Api& api) : api_(api) {}

  void note(Status status, const char* call) {
    if (status != kSuccess && failure_.empty()) failure_ = std::string(call) + ": " + describe(api_, status);
  }
  int attribute(DeviceNumber device, int which) {
    int value = 0;
    note(api_.device_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  }
  const std::string& failure() const { return failure_; }

 private:
  const Api& api_;
  std::string failure_;
};

}  // namespace

Result<int> count_devices(const Api& api) {
  int count = 0;
  const Status s = api.device_count(&count);
  if (s != kSuccess) return error(ErrorCode::kUnavailable, "cuDeviceGetCount: " + describe(api, s));
  if (count == 0) return error(ErrorCode::kUnavailable, "the CUDA driver sees no device" + closed_files(kCudaFiles));
  return count;
}

Result<Inspected> inspect(const Api& api, int ordinal) {
  Inspected out;
  Questions ask(api);
  std::array<char, 256> name{};
  size_t memory = 0;
  ask.note(api.device(&out.device, ordinal), "cuDeviceGet");
  ask.note(api.device_name(name.data(), static_cast<int>(name.size()) - 1, out.device), "cuDeviceGetName");
  ask.note(api.device_memory(&memory, out.device), "cuDeviceTotalMem");
  out.capability = {ask.attribute(out.device, kComputeCapabilityMajor),
                    ask.attribute(out.device, kComputeCapabilityMinor)};
  const int multiprocessors = ask.attribute(out.device, kMultiprocessorCount);
  const int shared = ask.attribute(out.device, kMaxSharedMemoryPerBlockOptin);
  if (!ask.failure().empty()) {
    return error(ErrorCode::kUnavailable, "cuda:" + std::to_string(ordinal) + ": " + ask.failure());
  }
  out.info.kind = "cuda";
  out.info.ordinal = ordinal;
  out.info.name = name.data();
  out.info.target = best_target(out.capability);
  out.info.note = note_on(out.capability);
  out.info.memory_bytes = memory;
  out.info.multiprocessors = static_cast<uint32_t>(multiprocessors);
  out.info.shared_bytes = static_cast<uint32_t>(shared);
  int cache = 0;
  if (api.device_attribute(&cache, kL2CacheSize, out.device) == kSuccess)
    out.info.cache_bytes = static_cast<uint64_t>(cache);
  out.info.driver_version = api.version;
  return out;
}

}  // namespace kiln::client::gpu::cuda
