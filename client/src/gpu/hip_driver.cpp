// A thread of HIP has a current device, which each call sets up and puts back. There are no contexts to open: the
// runtime makes one a device with its first use, and keeps it.
#include "hip_driver.h"

#include <array>
#include <atomic>

#include "hip_api.h"

namespace kiln::client::gpu::hip {
namespace {

constexpr std::string_view kFamily = "amd";

class CurrentDevice {
 public:
  CurrentDevice(const Api& api, int device) : api_(api), before_(device) {
    if (api.current_device(&before_) == kSuccess && before_ == device) return;
    // Where this fails, so does the call that needs it, with a reason.
    (void)api.set_device(device);
    restores_ = true;
  }
  ~CurrentDevice() {
    if (restores_) (void)api_.set_device(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Api& api_;
  int before_;
  bool restores_ = false;
};

class HipDriver final : public Driver {
 public:
  HipDriver(const Api& api, DeviceInfo info) : api_(api), info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }
  bool broken() const override { return broken_.load(std::memory_order_relaxed); }
  // A code object runs on the very processor that it was made for.
  Result<void> check_runs(const std::string& target, const std::string& emit) const override {
    const std::string wanted = target.substr(0, target.find_first_of(",;"));
    if (wanted == info_.target && emit == "hsaco") return {};
    const std::string wish = wanted == info_.target ? "code of the form `hsaco`" : "a device of that kind";
    return invalid_argument("needs " + wish + ", and this one is `" + info_.target + "`");
  }

  Result<void*> allocate_memory(uint64_t bytes) override {
    void* memory = nullptr;
    if (auto done = call("hipMalloc", [&] { return api_.allocate(&memory, bytes); }); !done) return done.error();
    return memory;
  }
  void free_memory(void* memory) override {
    (void)synchronise();
    (void)call("hipFree", [&] { return api_.free(memory); });
  }
  Result<void> copy(void* to, const void* from, uint64_t bytes, Handle stream) override {
    return call("hipMemcpyAsync", [&] { return api_.copy(to, from, bytes, kMemcpyDefault, stream); });
  }
  Result<void> fill(void* to, uint8_t value, uint64_t bytes, Handle stream) override {
    return call("hipMemsetAsync", [&] { return api_.fill(to, value, bytes, stream); });
  }

  Result<Handle> create_stream() override {
    return made("hipStreamCreateWithFlags", [&](Handle* out) { return api_.create_stream(out, kStreamNonBlocking); });
  }
  void destroy_stream(Handle stream) override {
    (void)call("hipStreamDestroy", [&] { return api_.destroy_stream(stream); });
  }
  Result<void> synchronise_stream(Handle stream) override {
    return call("hipStreamSynchronize", [&] { return api_.synchronise_stream(stream); });
  }
  Result<void> synchronise() override {
    return call("hipDeviceSynchronize", [&] { return api_.synchronise(); });
  }

  Result<Handle> create_event() override {
    return made("hipEventCreateWithFlags", [&](Handle* out) { return api_.create_event(out, kEventDefault); });
  }
  void destroy_event(Handle event) override {
    (void)call("hipEventDestroy", [&] { return api_.destroy_event(event); });
  }
  Result<void> record_event(Handle event, Handle stream) override {
    return call("hipEventRecord", [&] { return api_.record_event(event, stream); });
  }
  Result<void> synchronise_event(Handle event) override {
    return call("hipEventSynchronize", [&] { return api_.synchronise_event(event); });
  }
  Result<bool> is_done(Handle event) override {
    bool done = true;
    auto asked = call("hipEventQuery", [&] {
      const Status status = api_.query_event(event);
      done = status != kNotReady;
      return done ? status : kSuccess;
    });
    return asked ? Result<bool>(done) : asked.error();
  }
  Result<void> wait_for_event(Handle stream, Handle event) override {
    return call("hipStreamWaitEvent", [&] { return api_.wait_for_event(stream, event, 0); });
  }
  Result<float> elapsed_ms(Handle from, Handle to) override {
    float out = 0;
    auto done = call("hipEventElapsedTime", [&] { return api_.elapsed_time(&out, from, to); });
    return done ? Result<float>(out) : done.error();
  }

  Result<void> begin_capture(Handle stream) override {
    return call("hipStreamBeginCapture", [&] { return api_.begin_capture(stream, kCaptureModeRelaxed); });
  }
  Result<Handle> end_capture(Handle stream) override {
    auto graph = made("hipStreamEndCapture", [&](Handle* out) { return api_.end_capture(stream, out); });
    if (!graph) return graph;
    auto executable = made("hipGraphInstantiate",
                           [&](Handle* out) { return api_.instantiate_graph(out, *graph, nullptr, nullptr, 0); });
    (void)call("hipGraphDestroy", [&] { return api_.destroy_graph(*graph); });
    return executable;
  }
  Result<void> replay(Handle graph, Handle stream) override {
    return call("hipGraphLaunch", [&] { return api_.launch_graph(graph, stream); });
  }
  void destroy_graph(Handle graph) override {
    (void)call("hipGraphExecDestroy", [&] { return api_.destroy_executable(graph); });
  }

  Result<Handle> load_module(std::span<const std::byte> code) override {
    return made("hipModuleLoadData", [&](Handle* out) { return api_.load_module(out, code.data()); });
  }
  void unload_module(Handle module) override {
    (void)call("hipModuleUnload", [&] { return api_.unload_module(module); });
  }
  // What shared memory a kernel has its code object says.
  Result<Handle> find_kernel(Handle module, const std::string& entry, uint32_t) override {
    const std::string name = "hipModuleGetFunction of `" + entry + "`";
    return made(name.c_str(), [&](Handle* out) { return api_.find_function(out, module, entry.c_str()); });
  }

  Result<void> launch(const KernelLaunch& l) override {
    if (l.cluster != std::array<uint32_t, 3>{1, 1, 1}) return invalid_argument("AMD GPUs have no clusters of blocks");
    size_t bytes = l.block_bytes;
    void* packed[] = {reinterpret_cast<void*>(kLaunchParamBufferPointer), l.block,
                      reinterpret_cast<void*>(kLaunchParamBufferSize), &bytes,
                      reinterpret_cast<void*>(kLaunchParamEnd)};
    const auto [x, y, z] = l.grid;
    return call("hipModuleLaunchKernel", [&] {
      return api_.launch(l.kernel, x, y, z, l.threads, 1, 1, l.shared_bytes, l.stream, nullptr,
                         bytes > 0 ? packed : nullptr);
    });
  }
  Result<void> encode_tensor_map(const TensorMapArguments&, void*) override {
    return invalid_argument("AMD GPUs have no tensor maps");
  }

 private:
  template <class Call>
  Result<void> call(const char* name, const Call& function) {
    const CurrentDevice current(api_, info_.ordinal);
    const Status status = function();
    if (status == kSuccess) [[likely]]
      return {};
    if (is_sticky(status)) broken_.store(true, std::memory_order_relaxed);
    return error(code_of(status, is_sticky(status)), std::string(name) + ": " + describe(api_, status));
  }
  template <class Call>
  Result<Handle> made(const char* name, const Call& function) {
    Handle out = nullptr;
    auto done = call(name, [&] { return function(&out); });
    return done ? Result<Handle>(out) : done.error();
  }

  const Api& api_;
  const DeviceInfo info_;
  std::atomic<bool> broken_{false};
};

Result<int> count_devices(const Api& api) {
  int count = 0;
  const Status s = api.device_count(&count);
  if (s != kSuccess) return error(ErrorCode::kUnavailable, "hipGetDeviceCount: " + describe(api, s));
  if (count == 0) return error(ErrorCode::kUnavailable, "the HIP runtime sees no device" + closed_files(kAmdFiles));
  return count;
}

Result<DeviceInfo> inspect(const Api& api, int ordinal) {
  const std::string label = std::string(kFamily) + ":" + std::to_string(ordinal) + ": ";
  // More than the properties of any version take.
  std::string properties(16384, '\0');
  std::array<char, 256> name{};
  size_t memory = 0;
  int multiprocessors = 0, shared = 0;
  const std::pair<const char*, Status> answers[] = {
      {"hipDeviceGetName", api.device_name(name.data(), static_cast<int>(name.size()) - 1, ordinal)},
      {"hipDeviceTotalMem", api.device_memory(&memory, ordinal)},
      {"hipDeviceGetAttribute", api.device_attribute(&multiprocessors, kMultiprocessorCount, ordinal)},
      {"hipDeviceGetAttribute", api.device_attribute(&shared, kMaxSharedMemoryPerBlock, ordinal)},
      {"hipGetDeviceProperties", api.device_properties(properties.data(), ordinal)}};
  for (const auto& [call, status] : answers) {
    if (status != kSuccess) return error(ErrorCode::kUnavailable, label + call + ": " + describe(api, status));
  }
  const std::string processor = processor_of(properties);
  if (processor.empty()) return error(ErrorCode::kUnavailable, label + "its properties name no processor");
  DeviceInfo out;
  out.kind = kFamily;
  out.ordinal = ordinal;
  out.name = name.data();
  out.target = std::string(kFamily) + ":" + processor;
  out.memory_bytes = memory;
  out.multiprocessors = static_cast<uint32_t>(multiprocessors);
  out.shared_bytes = static_cast<uint32_t>(shared);
  return out;
}

}  // namespace

Result<std::vector<DeviceInfo>> list() {
  auto api = load_api();
  if (!api) return api.error();
  auto count = count_devices(**api);
  if (!count) return count.error();
  return inspect_all(*count, [&](int ordinal) { return inspect(**api, ordinal); });
}

Result<std::unique_ptr<Driver>> open(int ordinal) {
  auto api = load_api();
  if (!api) return api.error();
  auto count = count_devices(**api);
  if (!count) return count.error();
  const std::string kind(kFamily);
  if (auto there = check_ordinal(kind, ordinal, *count, "the HIP runtime"); !there) return there.error();
  auto info = inspect(**api, ordinal);
  if (!info) return info.error();
  return std::unique_ptr<Driver>(std::make_unique<HipDriver>(**api, std::move(*info)));
}

}  // namespace kiln::client::gpu::hip
