// Each call makes the device's primary context current on its thread if it is not, which costs one look into the
// driver's thread-local state where it is, and puts back what another library had there.
#include "cuda_driver.h"

#include <atomic>

#include "cuda_api.h"
#include "cuda_inspect.h"
#include "cuda_target.h"

namespace kiln::client::gpu::cuda {
namespace {

constexpr uint32_t kSharedWithoutAsking = 48u << 10;
// From CUDA 12.3 on such launches may be captured into graphs ("CUDA C++ Programming Guide", "Programmatic Dependent
// Launch and Synchronization", "Use in CUDA Graphs").
constexpr int kCapturesEarlyLaunches = 12030;

class CurrentContext {
 public:
  CurrentContext(const Api& api, Handle context) : api_(api) {
    Handle current = nullptr;
    if (api.current_context(&current) == kSuccess && current == context) return;
    // Where this fails, so does the call that needs it, with a reason.
    (void)api.set_current_context(context);
    before_ = current;
  }
  ~CurrentContext() {
    // A thread that had none keeps ours: its next call finds it there.
    if (before_ != nullptr) (void)api_.set_current_context(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Api& api_;
  Handle before_ = nullptr;
};

Address address_of(const void* memory) { return static_cast<Address>(reinterpret_cast<uintptr_t>(memory)); }
void* pointer_to(Address address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }

int tensor_map_type(dsl::ElementType element) {
  switch (element) {
    case dsl::ElementType::kF16:
      return kF16;
    case dsl::ElementType::kBF16:
      return kBF16;
    case dsl::ElementType::kF32:
      return kF32;
    case dsl::ElementType::kF64:
      return kF64;
    case dsl::ElementType::kI32:
      return kI32;
    case dsl::ElementType::kI64:
      return kI64;
    case dsl::ElementType::kU32:
      return kU32;
    case dsl::ElementType::kU64:
      return kU64;
    default:  // the engine moves bytes and halves as they are
      return dsl::info(element).bytes == 2 ? kU16 : kU8;
  }
}

int swizzle(uint32_t bytes) {
  return bytes == 128 ? kSwizzle128 : bytes == 64 ? kSwizzle64 : bytes == 32 ? kSwizzle32 : kSwizzleNone;
}

class CudaDriver final : public Driver {
 public:
  CudaDriver(const Api& api, Inspected inspected, Handle context)
      : api_(api), its_(std::move(inspected)), context_(context) {}
  ~CudaDriver() override { (void)api_.release_context(its_.device); }

  const DeviceInfo& info() const override { return its_.info; }
  Result<void> check_runs(const std::string& target, const std::string& emit) const override {
    if (auto runs = check_capability(target, emit, its_.capability); !runs) return runs.error();
    return check_driver(target, emit, its_.info.driver_version);
  }
  bool broken() const override { return broken_.load(std::memory_order_relaxed); }

  Result<void*> allocate_memory(uint64_t bytes) override {
    CurrentContext current(api_, context_);
    Address memory = 0;
    if (const Status s = api_.allocate(&memory, bytes); s != kSuccess) return failed(s, "cuMemAlloc");
    return pointer_to(memory);
  }
  void free_memory(void* memory) override {
    CurrentContext current(api_, context_);
    (void)api_.synchronise();  // cuMemFree itself "may" wait for what still uses the memory, says its documentation
    (void)api_.free(address_of(memory));
  }
  Result<void> copy(void* to, const void* from, uint64_t bytes, Handle stream) override {
    CurrentContext current(api_, context_);
    return checked(api_.copy(address_of(to), address_of(from), bytes, stream), "cuMemcpyAsync");
  }
  Result<void> fill(void* to, uint8_t value, uint64_t bytes, Handle stream) override {
    CurrentContext current(api_, context_);
    return checked(api_.fill(address_of(to), value, bytes, stream), "cuMemsetD8Async");
  }

  Result<Handle> create_stream() override {
    CurrentContext current(api_, context_);
    Handle stream = nullptr;
    if (const Status s = api_.create_stream(&stream, kStreamNonBlocking); s) return failed(s, "cuStreamCreate");
    return stream;
  }
  void destroy_stream(Handle stream) override {
    CurrentContext current(api_, context_);
    (void)api_.destroy_stream(stream);
  }
  Result<void> synchronise_stream(Handle stream) override {
    CurrentContext current(api_, context_);
    return checked(api_.synchronise_stream(stream), "cuStreamSynchronize");
  }
  Result<void> synchronise() override {
    CurrentContext current(api_, context_);
    return checked(api_.synchronise(), "cuCtxSynchronize");
  }

  Result<Handle> create_event() override {
    CurrentContext current(api_, context_);
    Handle event = nullptr;
    if (const Status s = api_.create_event(&event, kEventDefault); s) return failed(s, "cuEventCreate");
    return event;
  }
  void destroy_event(Handle event) override {
    CurrentContext current(api_, context_);
    (void)api_.destroy_event(event);
  }
  Result<void> record_event(Handle event, Handle stream) override {
    CurrentContext current(api_, context_);
    return checked(api_.record_event(event, stream), "cuEventRecord");
  }
  Result<void> synchronise_event(Handle event) override {
    CurrentContext current(api_, context_);
    return checked(api_.synchronise_event(event), "cuEventSynchronize");
  }
  Result<bool> is_done(Handle event) override {
    CurrentContext current(api_, context_);
    const Status status = api_.query_event(event);
    if (status != kSuccess && status != kNotReady) return failed(status, "cuEventQuery");
    return status == kSuccess;
  }
  Result<void> wait_for_event(Handle stream, Handle event) override {
    CurrentContext current(api_, context_);
    return checked(api_.wait_for_event(stream, event, 0), "cuStreamWaitEvent");
  }
  Result<float> elapsed_ms(Handle from, Handle to) override {
    CurrentContext current(api_, context_);
    float out = 0;
    if (const Status s = api_.elapsed_time(&out, from, to); s) return failed(s, "cuEventElapsedTime");
    return out;
  }

  Result<void> begin_capture(Handle stream) override {
    CurrentContext current(api_, context_);
    return checked(api_.begin_capture(stream, kCaptureModeRelaxed), "cuStreamBeginCapture");
  }
  Result<Handle> end_capture(Handle stream) override;
  Result<void> replay(Handle graph, Handle stream) override {
    CurrentContext current(api_, context_);
    return checked(api_.launch_graph(graph, stream), "cuGraphLaunch");
  }
  void destroy_graph(Handle graph) override {
    CurrentContext current(api_, context_);
    (void)api_.destroy_executable(graph);
  }

  Result<Handle> load_module(std::span<const std::byte> code) override;
  void unload_module(Handle module) override {
    CurrentContext current(api_, context_);
    (void)api_.unload_module(module);
  }
  Result<Handle> find_kernel(Handle module, const std::string& entry, uint32_t shared_bytes) override;
  Result<void> launch(const KernelLaunch& launch) override;
  Result<void> encode_tensor_map(const TensorMapArguments& arguments, void* map) override;

 private:
  Error failed(Status status, const std::string& call) {
    if (is_sticky(status)) broken_.store(true, std::memory_order_relaxed);
    return error(code_of(status, is_sticky(status)), call + ": " + describe(api_, status));
  }
  Result<void> checked(Status status, const char* call) {
    if (status == kSuccess) [[likely]]
      return {};
    return failed(status, call);
  }
  Error too_old(const char* what, const char* missing, const char* since) const {
    return error(ErrorCode::kUnavailable, std::string("this CUDA driver is too old for ") + what + ": it has no " +
                                              missing + ", as one of CUDA " + since + " or later has");
  }

  const Api& api_;
  const Inspected its_;
  const Handle context_;
  std::atomic<bool> broken_{false};
};

Result<Handle> CudaDriver::end_capture(Handle stream) {
  CurrentContext current(api_, context_);
  Handle graph = nullptr, executable = nullptr;
  if (const Status s = api_.end_capture(stream, &graph); s) return failed(s, "cuStreamEndCapture");
  const Status s = api_.instantiate_graph(&executable, graph, 0);
  (void)api_.destroy_graph(graph);
  if (s != kSuccess) return failed(s, "cuGraphInstantiate");
  return executable;
}

Result<Handle> CudaDriver::load_module(std::span<const std::byte> code) {
  CurrentContext current(api_, context_);
  // PTX is text that ends with a zero; one more byte does no harm to a cubin.
  std::string image(reinterpret_cast<const char*>(code.data()), code.size());
  std::array<char, 8192> log{};
  // Lines are kept of PTX that names some.
  int options[] = {kJitErrorLogBuffer, kJitErrorLogBufferSizeBytes, kJitGenerateLineInfo};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size()), reinterpret_cast<void*>(uintptr_t{1})};
  Handle module = nullptr;
  const Status s = api_.load_module(&module, image.c_str(), std::size(options), options, values);
  if (s == kSuccess) return module;
  Error out = failed(s, "cuModuleLoadDataEx");
  log.back() = 0;
  if (log[0] != 0) out.message += "\n" + std::string(log.data());
  return out;
}

Result<Handle> CudaDriver::find_kernel(Handle module, const std::string& entry, uint32_t shared_bytes) {
  CurrentContext current(api_, context_);
  Handle function = nullptr;
  if (const Status s = api_.find_function(&function, module, entry.c_str()); s) {
    return failed(s, "cuModuleGetFunction of `" + entry + "`");
  }
  if (shared_bytes > kSharedWithoutAsking) {
    const Status s = api_.set_function_attribute(function, kMaxDynamicSharedSizeBytes, static_cast<int>(shared_bytes));
    if (s != kSuccess) return failed(s, "cuFuncSetAttribute of " + std::to_string(shared_bytes) + " shared bytes");
  }
  return function;
}

Result<void> CudaDriver::launch(const KernelLaunch& l) {
  CurrentContext current(api_, context_);
  size_t bytes = l.block_bytes;
  void* packed[] = {reinterpret_cast<void*>(kLaunchParamBufferPointer), l.block,
                    reinterpret_cast<void*>(kLaunchParamBufferSize), &bytes, reinterpret_cast<void*>(kLaunchParamEnd)};
  void** extra = bytes > 0 && l.offsets.empty() ? packed : nullptr;
  std::array<void*, kMaxOffsets + 1> each;  // one by one, with a null at the end
  void** params = l.offsets.empty() ? nullptr : each.data();
  for (size_t i = 0; i < l.offsets.size(); ++i) each[i] = static_cast<std::byte*>(l.block) + l.offsets[i];
  each[l.offsets.size()] = nullptr;
  const auto [x, y, z] = l.grid;
  std::array<LaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (const auto [cx, cy, cz] = l.cluster; cx != 1 || cy != 1 || cz != 1) {
    if (api_.launch_ex == nullptr) return too_old("clusters of blocks", "cuLaunchKernelEx", "11.8");
    attributes[count].id = kClusterDimension;
    attributes[count++].value.cluster = {cx, cy, cz};
  }
  if (l.early && api_.launch_ex != nullptr && api_.version >= kCapturesEarlyLaunches) {
    attributes[count].id = kProgrammaticStreamSerialization;
    attributes[count++].value.early = 1;
  }
  if (count == 0) {
    return checked(api_.launch(l.kernel, x, y, z, l.threads, 1, 1, l.shared_bytes, l.stream, params, extra),
                   "cuLaunchKernel");
  }
  const LaunchConfig config{x, y, z, l.threads, 1, 1, l.shared_bytes, l.stream, attributes.data(), count};
  return checked(api_.launch_ex(&config, l.kernel, params, extra), "cuLaunchKernelEx");
}

Result<void> CudaDriver::encode_tensor_map(const TensorMapArguments& a, void* map) {
  if (api_.encode_tiled == nullptr) return too_old("tensor maps", "cuTensorMapEncodeTiled", "12.0");
  const std::array<uint32_t, kMaxTensorRank> every_element = {1, 1, 1, 1, 1};
  return checked(
      api_.encode_tiled(map, tensor_map_type(a.element), a.rank, a.address, a.dims.data(), a.strides_bytes.data(),
                        a.box.data(), every_element.data(), kInterleaveNone, swizzle(a.swizzle_bytes), kL2Promotion128,
                        a.fills_nan ? kOutOfBoundsNan : kOutOfBoundsZero),
      "cuTensorMapEncodeTiled");
}

}  // namespace

Result<std::vector<DeviceInfo>> list() {
  auto api = load_api();
  if (!api) return api.error();
  auto count = count_devices(**api);
  if (!count) return count.error();
  return inspect_all(*count, [&](int ordinal) -> Result<DeviceInfo> {
    auto inspected = inspect(**api, ordinal);
    return inspected ? Result<DeviceInfo>(std::move(inspected->info)) : inspected.error();
  });
}

Result<std::unique_ptr<Driver>> open(int ordinal) {
  auto api = load_api();
  if (!api) return api.error();
  auto count = count_devices(**api);
  if (!count) return count.error();
  if (auto there = check_ordinal("cuda", ordinal, *count, "the driver"); !there) return there.error();
  auto inspected = inspect(**api, ordinal);
  if (!inspected) return inspected.error();
  Handle context = nullptr;
  if (const Status s = (*api)->retain_context(&context, inspected->device); s != kSuccess) {
    return error(ErrorCode::kUnavailable, "cuda:" + std::to_string(ordinal) + " (" + inspected->info.name +
                                              "): cuDevicePrimaryCtxRetain: " + describe(**api, s));
  }
  return std::unique_ptr<Driver>(std::make_unique<CudaDriver>(**api, std::move(*inspected), context));
}

}  // namespace kiln::client::gpu::cuda
