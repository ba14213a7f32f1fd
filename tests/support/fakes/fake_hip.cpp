// The fake itself. One lock around all of it.
#include "fake_hip.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_objects.h"

namespace {

using fake::Graph;
using fake::Module;
using fake::Status;
using fake::Stream;

struct Function {
  int device;
  std::string name;
};

struct State {
  std::recursive_mutex mutex;
  fake::Objects objects;
  int devices = std::getenv("FAKE_HIP_KERNEL") != nullptr ? 1 : 0;
  FakeHipKernel kernel = nullptr;
  std::map<std::pair<Module*, std::string>, Function> functions;
  std::vector<FakeHipLaunch> launches;
  double clock = 0;
};

State& state() {
  static State it;
  return it;
}
using Guard = std::lock_guard<std::recursive_mutex>;
thread_local int current = 0;

void misuse(const char* what) { state().objects.misuse(what); }

// The code of all kernels where the environment names a library: of processes in which nobody calls fake_hip_kernel().
using Entry = int32_t (*)(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, void* context);
Entry named_entry() {
  const char* named = std::getenv("FAKE_HIP_KERNEL");
  void* library = named != nullptr ? ::dlopen(named, RTLD_NOW) : nullptr;
  if (named != nullptr && library == nullptr) misuse("a kernel that cannot be loaded");
  return library != nullptr ? reinterpret_cast<Entry>(::dlsym(library, "kiln_entry")) : nullptr;
}

Status run_or_record(void* stream, fake::Work work) {
  Stream of_default{current};
  Stream& its = stream != nullptr ? *static_cast<Stream*>(stream) : of_default;
  if (its.device != current) {
    misuse("a stream of another device than the current one");
    return 400;
  }
  return its.run_or_record(std::move(work));
}

}  // namespace

#define ENTER(name)                                                      \
  Guard guard(state().mutex);                                            \
  if (const Status failed = state().objects.enter(#name); failed != 0) { \
    return failed;                                                       \
  }

void fake_hip_reset(int devices) {
  State& s = state();
  Guard guard(s.mutex);
  s.objects.reset();
  s.devices = devices;
  s.kernel = nullptr;
  s.functions.clear();
  s.launches.clear();
  s.clock = 0;
  current = 0;
}
void fake_hip_fail(const char* function, int status) {
  Guard guard(state().mutex);
  state().objects.fail(function, status, 0);
}
void fake_hip_kernel(FakeHipKernel kernel) { state().kernel = kernel; }
size_t fake_hip_launches() { return state().launches.size(); }
const FakeHipLaunch* fake_hip_launch(size_t number) { return &state().launches.at(number); }
long fake_hip_live() { return state().objects.live(); }
const char* fake_hip_misuse() { return state().objects.misuse(); }

// The runtime's functions, with the runtime's names.
FAKE_API Status hipInit(unsigned) {
  ENTER(hipInit)
  if (state().devices == 0) fake_hip_reset(1);
  return 0;
}
FAKE_API const char* hipGetErrorName(Status status) {
  static const std::map<Status, const char*> names = {{1, "hipErrorInvalidValue"}, {2, "hipErrorOutOfMemory"},
                                                      {100, "hipErrorNoDevice"},   {209, "hipErrorNoBinaryForGpu"},
                                                      {500, "hipErrorNotFound"},   {719, "hipErrorLaunchFailure"}};
  const auto known = names.find(status);
  return known == names.end() ? nullptr : known->second;
}
FAKE_API const char* hipGetErrorString(Status status) {
  return status == 2 ? "out of memory" : status == 719 ? "unspecified launch failure" : "a fake error";
}
FAKE_API Status hipGetDeviceCount(int* count) {
  ENTER(hipGetDeviceCount)
  *count = state().devices;
  return 0;
}
FAKE_API Status hipDeviceGetName(char* name, int length, int device) {
  ENTER(hipDeviceGetName)
  std::strncpy(name, ("Fake gfx " + std::to_string(device)).c_str(), static_cast<size_t>(length));
  return 0;
}
FAKE_API Status hipDeviceTotalMem(size_t* bytes, int) {
  ENTER(hipDeviceTotalMem)
  *bytes = size_t{64} << 30;
  return 0;
}
FAKE_API Status hipDeviceGetAttribute(int* value, int attribute, int) {
  ENTER(hipDeviceGetAttribute)
  if (attribute != 63 && attribute != 74) return 1;
  *value = attribute == 63 ? 304 : 65536;
  return 0;
}
// A name, numbers, and the processor somewhere behind them.
FAKE_API Status hipGetDevicePropertiesR0600(void* properties, int device) {
  ENTER(hipGetDevicePropertiesR0600)
  auto* bytes = static_cast<char*>(properties);
  std::memset(bytes, 0x11, 1472);
  std::strcpy(bytes, "AMD gfx900-like");
  std::strcpy(bytes + 1160, device % 2 == 0 ? "gfx942:sramecc+:xnack-" : "gfx1100");
  return 0;
}
FAKE_API Status hipGetDevice(int* device) {
  *device = current;
  return 0;
}
FAKE_API Status hipSetDevice(int device) {
  ENTER(hipSetDevice)
  current = device;
  return 0;
}
FAKE_API Status hipDeviceSynchronize() {
  ENTER(hipDeviceSynchronize)
  return 0;
}

FAKE_API Status hipMalloc(void** memory, size_t bytes) {
  ENTER(hipMalloc)
  *memory = state().objects.allocate(bytes, current);
  return 0;
}
FAKE_API Status hipFree(void* memory) {
  ENTER(hipFree)
  return state().objects.free(memory, current) ? 0 : 1;
}
FAKE_API Status hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  ENTER(hipMemcpyAsync)
  if (kind != 4) misuse("a copy whose kind is not by the addresses");
  return run_or_record(stream, [=] { std::memcpy(to, from, bytes); });
}
FAKE_API Status hipMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  ENTER(hipMemsetAsync)
  return run_or_record(stream, [=] { std::memset(to, value, bytes); });
}

FAKE_API Status hipStreamCreateWithFlags(void** stream, unsigned flags) {
  ENTER(hipStreamCreateWithFlags)
  if (flags != 1) misuse("a stream that waits for the default one");
  return state().objects.create("stream", stream, Stream{current});
}
FAKE_API Status hipStreamDestroy(void* stream) {
  ENTER(hipStreamDestroy)
  return state().objects.destroy<Stream>("stream", stream);
}
FAKE_API Status hipStreamSynchronize(void*) {
  ENTER(hipStreamSynchronize)
  return 0;
}
FAKE_API Status hipStreamWaitEvent(void*, void*, unsigned) {
  ENTER(hipStreamWaitEvent)
  return 0;
}
FAKE_API Status hipEventCreateWithFlags(void** event, unsigned) {
  ENTER(hipEventCreateWithFlags)
  return state().objects.create("event", event, double{-1});
}
FAKE_API Status hipEventDestroy(void* event) {
  ENTER(hipEventDestroy)
  return state().objects.destroy<double>("event", event);
}
FAKE_API Status hipEventRecord(void* event, void* stream) {
  ENTER(hipEventRecord)
  return run_or_record(stream, [event] { *static_cast<double*>(event) = state().clock; });
}
FAKE_API Status hipEventQuery(void*) {
  ENTER(hipEventQuery)
  return 0;
}
FAKE_API Status hipEventSynchronize(void*) {
  ENTER(hipEventSynchronize)
  return 0;
}
FAKE_API Status hipEventElapsedTime(float* milliseconds, void* from, void* to) {
  ENTER(hipEventElapsedTime)
  *milliseconds = static_cast<float>(*static_cast<double*>(to) - *static_cast<double*>(from));
  return 0;
}

FAKE_API Status hipStreamBeginCapture(void* stream, int mode) {
  ENTER(hipStreamBeginCapture)
  if (mode != 2) misuse("a capture in which memory cannot be allocated");
  if (stream == nullptr) return fake::kNotForDefaultStream;
  return static_cast<Stream*>(stream)->begin_capture();
}
FAKE_API Status hipStreamEndCapture(void* stream, void** graph) {
  ENTER(hipStreamEndCapture)
  const Status status = static_cast<Stream*>(stream)->end_capture(graph);
  if (status == 0) state().objects.count("graph", 1);
  return status;
}
FAKE_API Status hipGraphInstantiate(void** executable, void* graph, void**, char*, size_t) {
  ENTER(hipGraphInstantiate)
  return state().objects.create("graph", executable, Graph(*static_cast<Graph*>(graph)));
}
FAKE_API Status hipGraphLaunch(void* executable, void* stream) {
  ENTER(hipGraphLaunch)
  return run_or_record(stream, [executable] { fake::run(*static_cast<Graph*>(executable)); });
}
FAKE_API Status hipGraphDestroy(void* graph) {
  ENTER(hipGraphDestroy)
  return state().objects.destroy<Graph>("graph", graph);
}
FAKE_API Status hipGraphExecDestroy(void* executable) {
  ENTER(hipGraphExecDestroy)
  return state().objects.destroy<Graph>("graph", executable);
}

FAKE_API Status hipModuleLoadData(void** module, const void* image) {
  ENTER(hipModuleLoadData)
  return state().objects.create("module", module, Module{current, fake::image_of(image)});
}
FAKE_API Status hipModuleUnload(void* module) {
  ENTER(hipModuleUnload)
  std::erase_if(state().functions, [module](const auto& entry) { return entry.first.first == module; });
  return state().objects.destroy<Module>("module", module);
}
FAKE_API Status hipModuleGetFunction(void** function, void* module, const char* name) {
  ENTER(hipModuleGetFunction)
  auto* its = static_cast<Module*>(module);
  if (!its->has(name)) return 500;
  *function = &(state().functions[{its, name}] = {its->device, name});
  return 0;
}
FAKE_API Status hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                      unsigned bz, unsigned shared, void* stream, void** params, void** extra) {
  ENTER(hipModuleLaunchKernel)
  const auto& its = *static_cast<Function*>(function);
  if (params != nullptr) misuse("parameters one by one");
  if (its.device != current) misuse("a kernel of another device than the current one");
  FakeHipLaunch launch{};
  std::strncpy(launch.entry, its.name.c_str(), sizeof launch.entry - 1);
  const unsigned sizes[] = {gx, gy, gz, bx, by, bz};
  std::memcpy(launch.grid, sizes, sizeof launch.grid);
  std::memcpy(launch.block, sizes + 3, sizeof launch.block);
  launch.shared_bytes = shared;
  launch.stream = stream;
  launch.device = current;
  if (extra != nullptr) {
    if (reinterpret_cast<uintptr_t>(extra[0]) != 1 || reinterpret_cast<uintptr_t>(extra[2]) != 2 ||
        reinterpret_cast<uintptr_t>(extra[4]) != 3) {
      misuse("extra of a launch");
      return 1;
    }
    launch.bytes = *static_cast<size_t*>(extra[3]);
    std::memcpy(launch.params, extra[1], launch.bytes);
  }
  return run_or_record(stream, [launch] {
    state().clock += 1;
    static const Entry entry = named_entry();
    if (state().kernel != nullptr) state().kernel(launch.params, launch.grid);
    if (entry != nullptr && entry(launch.params, launch.grid, 0, 1, nullptr) != 0) misuse("a kernel that fails");
    state().launches.push_back(launch);
  });
}
