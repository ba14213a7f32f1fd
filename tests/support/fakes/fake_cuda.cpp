// The fake itself. One lock around all of it: what is tested is the other side. FAKE_LACKS leaves functions out, as an
// old driver does: 1 those that Kiln can do without, 2 also one that it needs; FAKE_NO_DEVICE is a driver that does not
// start.
#include "fake_cuda.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fake_objects.h"

#ifndef FAKE_LACKS
#define FAKE_LACKS 0
#endif

namespace {

using fake::Graph;
using fake::Module;
using fake::Status;
using fake::Stream;

struct Context {
  int device;
  int references = 0;
  Status broken = 0;
};
struct Function {
  Module* module;
  std::string name;
  FakeKernel kernel;
};
struct Event {
  double time = -1;
};
struct State {
  std::recursive_mutex mutex;
  fake::Objects objects;
  std::vector<Context> contexts;
  std::vector<std::pair<int, int>> capabilities;
  std::map<std::string, FakeKernel, std::less<>> kernels;
  std::map<std::pair<Module*, std::string>, Function> functions;
  std::vector<FakeLaunch> launches;
  std::vector<FakeTensorMap> maps;
  std::string jit_log;
  std::map<int, void*> jit_options;
  int attribute = 0, attribute_value = 0;
  double clock = 0;
  std::atomic<bool> quiet{false};
};

State& state() {
  static State it;
  return it;
}
using Guard = std::lock_guard<std::recursive_mutex>;

thread_local Context* current = nullptr;

void misuse(const char* what) { state().objects.misuse(what); }

// What every call does first: counted, made to fail, refused without a context or on a broken one.
Status enter(std::string_view function, bool needs_context = true) {
  if (const Status status = state().objects.enter(function); status != 0) {
    if (status >= 700 && current != nullptr) current->broken = status;
    return status;
  }
  if (!needs_context) return 0;
  if (current == nullptr) return 201;
  return current->broken;
}

Status run_or_record(Stream* stream, fake::Work work) {
  Stream of_default{current->device};
  Stream& its = stream != nullptr ? *stream : of_default;
  return its.device != current->device ? 400 : its.run_or_record(std::move(work));
}

// The code of all kernels where the environment names a library: of processes in which nobody calls fake_kernel().
using Entry = int32_t (*)(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, void* context);
Entry named_entry() {
  const char* named = std::getenv("FAKE_CUDA_KERNEL");
  void* library = named != nullptr ? ::dlopen(named, RTLD_NOW) : nullptr;
  if (named != nullptr && library == nullptr) misuse("a kernel that cannot be loaded");
  return library != nullptr ? reinterpret_cast<Entry>(::dlsym(library, "kiln_entry")) : nullptr;
}

void run(const Function& function, const FakeLaunch& launch) {
  static const Entry entry = named_entry();
  State& s = state();
  s.clock += 1;
  if (function.kernel != nullptr) function.kernel(launch.params, launch.grid);
  // A number that is not 0 is the error of all that comes after it.
  if (entry != nullptr) current->broken = entry(launch.params, launch.grid, 0, 1, nullptr);
  s.launches.push_back(launch);
}

Status start(Function* function, const unsigned grid[3], const unsigned block[3], const unsigned cluster[3],
             unsigned shared, Stream* stream, void** params, void** extra, bool early = false) {
  if (function->module->device != current->device) return 400;
  FakeLaunch launch{};
  std::strncpy(launch.entry, function->name.c_str(), sizeof launch.entry - 1);
  std::memcpy(launch.grid, grid, sizeof launch.grid);
  std::memcpy(launch.block, block, sizeof launch.block);
  std::memcpy(launch.cluster, cluster, sizeof launch.cluster);
  launch.shared_bytes = shared;
  launch.early = early;
  launch.stream = stream;
  launch.device = current->device;
  if (extra != nullptr) {
    if (extra[0] != reinterpret_cast<void*>(1) || extra[2] != reinterpret_cast<void*>(2) || extra[4] != nullptr) {
      misuse("extra of a launch");
      return 1;
    }
    launch.bytes = *static_cast<size_t*>(extra[3]);
    std::memcpy(launch.params, extra[1], launch.bytes);
  }
  // One by one, as kernels with tensor maps have them: the client ends the list, and a map is the largest parameter.
  if (params != nullptr) {
    const auto* block = static_cast<const unsigned char*>(params[0]);
    for (void** param = params; *param != nullptr; ++param) {
      const auto offset = static_cast<size_t>(static_cast<unsigned char*>(*param) - block);
      std::memcpy(launch.params + offset, *param, 8);
      launch.bytes = offset + 8;
    }
    std::memcpy(launch.params, block, launch.bytes + 120);
    launch.bytes += 120;
  }
  return run_or_record(stream, [function, launch] { run(*function, launch); });
}

}  // namespace

#define ENTER(name)                                      \
  Guard guard(state().mutex);                            \
  if (const Status failed = enter(#name); failed != 0) { \
    return failed;                                       \
  }
#define ENTER_WITHOUT_CONTEXT(name)                             \
  Guard guard(state().mutex);                                   \
  if (const Status failed = enter(#name, false); failed != 0) { \
    return failed;                                              \
  }

void fake_reset(int devices) {
  State& s = state();
  Guard guard(s.mutex);
  current = nullptr;
  s.objects.reset();
  s.contexts.assign(static_cast<size_t>(devices), {});
  for (int i = 0; i < devices; ++i) s.contexts[static_cast<size_t>(i)].device = i;
  s.capabilities.assign(static_cast<size_t>(devices), {9, 0});
  s.kernels.clear();
  s.launches.clear();
  s.maps.clear();
  s.jit_log.clear();
  s.jit_options.clear();
  s.attribute = s.attribute_value = 0;
  s.clock = 0;
  s.quiet = false;
}
void fake_set_capability(int device, int major, int minor) {
  Guard guard(state().mutex);
  state().capabilities[static_cast<size_t>(device)] = {major, minor};
}
void fake_fail(const char* function, int status, int skip) {
  Guard guard(state().mutex);
  state().objects.fail(function, status, skip);
}
void fake_break(int device, int status) {
  Guard guard(state().mutex);
  state().contexts[static_cast<size_t>(device)].broken = status;
}
void fake_jit_log(const char* text) {
  Guard guard(state().mutex);
  state().jit_log = text;
}
size_t fake_jit_option(int option) {
  Guard guard(state().mutex);
  const auto found = state().jit_options.find(option);
  return found == state().jit_options.end() ? 0 : reinterpret_cast<size_t>(found->second);
}
void fake_kernel(const char* entry, FakeKernel kernel) {
  Guard guard(state().mutex);
  state().kernels[entry] = kernel;
}
void fake_quiet(bool quiet) { state().quiet = quiet; }
size_t fake_launches() {
  Guard guard(state().mutex);
  return state().launches.size();
}
const FakeLaunch* fake_launch(size_t number) { return &state().launches.at(number); }
size_t fake_tensor_maps() { return state().maps.size(); }
const FakeTensorMap* fake_tensor_map(size_t number) { return &state().maps.at(number); }
size_t fake_calls(const char* function) {
  Guard guard(state().mutex);
  return state().objects.calls(function);
}
long fake_live(const char* what) {
  Guard guard(state().mutex);
  return state().objects.live(what);
}
const char* fake_misuse() { return state().objects.misuse(); }
int fake_attribute() { return state().attribute; }
int fake_attribute_value() { return state().attribute_value; }

// The driver's functions, with the driver's names.
FAKE_API Status cuInit(unsigned) {
  ENTER_WITHOUT_CONTEXT(cuInit)
#ifdef FAKE_NO_DEVICE
  return 100;
#endif
  if (state().contexts.empty()) fake_reset(1);
  return 0;
}
FAKE_API Status cuDriverGetVersion(int* version) {
  *version = FAKE_LACKS == 0 ? 13000 : 11040;
  return 0;
}
FAKE_API Status cuGetErrorName(Status status, const char** name) {
  static const std::map<Status, const char*> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},     {2, "CUDA_ERROR_OUT_OF_MEMORY"},    {100, "CUDA_ERROR_NO_DEVICE"},
      {201, "CUDA_ERROR_INVALID_CONTEXT"}, {218, "CUDA_ERROR_INVALID_PTX"},    {400, "CUDA_ERROR_INVALID_HANDLE"},
      {500, "CUDA_ERROR_NOT_FOUND"},       {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}};
  const auto known = names.find(status);
  if (known == names.end()) return 1;
  *name = known->second;
  return 0;
}
FAKE_API Status cuGetErrorString(Status status, const char** text) {
  *text = status == 2     ? "out of memory"
          : status == 100 ? "no CUDA-capable device is detected"
          : status == 700 ? "an illegal memory access was encountered"
                          : "a fake error";
  return 0;
}
FAKE_API Status cuDeviceGetCount(int* count) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGetCount)
  *count = static_cast<int>(state().contexts.size());
  return 0;
}
FAKE_API Status cuDeviceGet(int* device, int ordinal) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGet)
  *device = ordinal;
  return 0;
}
FAKE_API Status cuDeviceGetName(char* name, int length, int device) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGetName)
  std::strncpy(name, ("Fake " + std::to_string(device)).c_str(), static_cast<size_t>(length));
  return 0;
}
FAKE_API Status cuDeviceTotalMem_v2(size_t* bytes, int) {
  ENTER_WITHOUT_CONTEXT(cuDeviceTotalMem_v2)
  *bytes = size_t{8} << 30;
  return 0;
}
FAKE_API Status cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER_WITHOUT_CONTEXT(cuDeviceGetAttribute)
  const auto [major, minor] = state().capabilities[static_cast<size_t>(device)];
  const std::map<int, int> values = {{16, 132}, {38, 52428800}, {75, major}, {76, minor}, {97, 232448}};
  const auto known = values.find(attribute);
  if (known == values.end()) return 1;
  *value = known->second;
  return 0;
}
FAKE_API Status cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRetain)
  Context& its = state().contexts[static_cast<size_t>(device)];
  ++its.references;
  state().objects.count("context", 1);
  *context = &its;
  return 0;
}
FAKE_API Status cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRelease_v2)
  if (--state().contexts[static_cast<size_t>(device)].references < 0) misuse("a context released too often");
  state().objects.count("context", -1);
  return 0;
}
FAKE_API Status cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}
FAKE_API Status cuCtxSetCurrent(void* context) {
  ENTER_WITHOUT_CONTEXT(cuCtxSetCurrent)
  current = static_cast<Context*>(context);
  return 0;
}
FAKE_API Status cuCtxSynchronize() {
  ENTER(cuCtxSynchronize)
  return 0;
}

FAKE_API Status cuMemAlloc_v2(unsigned long long* memory, size_t bytes) {
  ENTER(cuMemAlloc_v2)
  if (bytes == 0) return 1;
  if (bytes > size_t{1} << 33) return 2;
  *memory = reinterpret_cast<uintptr_t>(state().objects.allocate(bytes, current->device));
  return 0;
}
FAKE_API Status cuMemFree_v2(unsigned long long memory) {
  Guard guard(state().mutex);
  const Status failed = enter("cuMemFree_v2");  // on a broken context it fails, and the memory is gone with that
  void* host = reinterpret_cast<void*>(static_cast<uintptr_t>(memory));
  return state().objects.free(host, current != nullptr ? current->device : 0) ? failed : 1;
}
FAKE_API Status cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  ENTER(cuMemcpyAsync)
  return run_or_record(static_cast<Stream*>(stream), [to, from, bytes] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
}
FAKE_API Status cuMemsetD8Async(unsigned long long to, unsigned char value, size_t count, void* stream) {
  ENTER(cuMemsetD8Async)
  return run_or_record(static_cast<Stream*>(stream),
                       [to, value, count] { std::memset(reinterpret_cast<void*>(to), value, count); });
}

FAKE_API Status cuStreamCreate(void** stream, unsigned flags) {
  ENTER(cuStreamCreate)
  if (flags != 1) misuse("a stream that waits for the default one");
  return state().objects.create("stream", stream, Stream{current->device});
}
FAKE_API Status cuStreamDestroy_v2(void* stream) {
  Guard guard(state().mutex);
  (void)enter("cuStreamDestroy_v2");
  return state().objects.destroy<Stream>("stream", stream);
}
FAKE_API Status cuStreamSynchronize(void* stream) {
  ENTER(cuStreamSynchronize)
  return stream != nullptr && static_cast<Stream*>(stream)->capture != nullptr ? 900 : 0;
}
FAKE_API Status cuStreamWaitEvent(void*, void*, unsigned) {
  ENTER(cuStreamWaitEvent)
  return 0;
}
FAKE_API Status cuEventCreate(void** event, unsigned) {
  ENTER(cuEventCreate)
  return state().objects.create("event", event, Event{});
}
FAKE_API Status cuEventDestroy_v2(void* event) {
  Guard guard(state().mutex);
  (void)enter("cuEventDestroy_v2");
  return state().objects.destroy<Event>("event", event);
}
FAKE_API Status cuEventRecord(void* event, void* stream) {
  ENTER(cuEventRecord)
  return run_or_record(static_cast<Stream*>(stream), [event] { static_cast<Event*>(event)->time = state().clock; });
}
FAKE_API Status cuEventQuery(void*) {
  ENTER(cuEventQuery)
  return 0;
}
FAKE_API Status cuEventSynchronize(void*) {
  ENTER(cuEventSynchronize)
  return 0;
}
FAKE_API Status cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  ENTER(cuEventElapsedTime)
  const double a = static_cast<Event*>(from)->time, b = static_cast<Event*>(to)->time;
  if (a < 0 || b < 0) return 400;
  *milliseconds = static_cast<float>(b - a);  // each kernel takes a millisecond
  return 0;
}

FAKE_API Status cuStreamBeginCapture_v2(void* stream, int mode) {
  ENTER(cuStreamBeginCapture_v2)
  if (mode != 2) misuse("a capture in which memory cannot be allocated");
  if (stream == nullptr) return fake::kNotForDefaultStream;
  return static_cast<Stream*>(stream)->begin_capture();
}
FAKE_API Status cuStreamEndCapture(void* stream, void** graph) {
  ENTER(cuStreamEndCapture)
  const Status status = static_cast<Stream*>(stream)->end_capture(graph);
  if (status == 0) state().objects.count("graph", 1);
  return status;
}
#if FAKE_LACKS < 2
FAKE_API Status cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags)
  return state().objects.create("graph", executable, Graph(*static_cast<Graph*>(graph)));
}
#endif
FAKE_API Status cuGraphLaunch(void* executable, void* stream) {
  ENTER(cuGraphLaunch)
  return run_or_record(static_cast<Stream*>(stream), [executable] { fake::run(*static_cast<Graph*>(executable)); });
}
FAKE_API Status cuGraphDestroy(void* graph) {
  Guard guard(state().mutex);
  return state().objects.destroy<Graph>("graph", graph);
}
FAKE_API Status cuGraphExecDestroy(void* executable) {
  Guard guard(state().mutex);
  return state().objects.destroy<Graph>("graph", executable);
}

FAKE_API Status cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  Guard guard(state().mutex);
  state().jit_options.clear();
  for (unsigned i = 0; i < count; ++i) state().jit_options[options[i]] = values[i];
  if (const Status failed = enter("cuModuleLoadDataEx"); failed != 0) {
    if (state().jit_options.contains(5) && state().jit_options.contains(6)) {
      std::strncpy(static_cast<char*>(state().jit_options[5]), state().jit_log.c_str(),
                   reinterpret_cast<size_t>(state().jit_options[6]) - 1);
    }
    return failed;
  }
  return state().objects.create("module", module, Module{current->device, fake::image_of(image)});
}
FAKE_API Status cuModuleUnload(void* module) {
  Guard guard(state().mutex);
  (void)enter("cuModuleUnload");
  std::erase_if(state().functions, [module](const auto& entry) { return entry.first.first == module; });
  return state().objects.destroy<Module>("module", module);
}
FAKE_API Status cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER(cuModuleGetFunction)
  Module* its = static_cast<Module*>(module);
  if (!its->has(name)) return 500;
  const auto kernel = state().kernels.find(name);
  Function made{its, name, kernel != state().kernels.end() ? kernel->second : nullptr};
  *function = &state().functions.insert_or_assign({its, name}, std::move(made)).first->second;
  return 0;
}
FAKE_API Status cuFuncSetAttribute(void*, int attribute, int value) {
  ENTER(cuFuncSetAttribute)
  state().attribute = attribute;
  state().attribute_value = value;
  return 0;
}
FAKE_API Status cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void* stream, void** params, void** extra) {
  if (state().quiet) return 0;
  ENTER(cuLaunchKernel)
  const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz}, cluster[3] = {1, 1, 1};
  return start(static_cast<Function*>(function), grid, block, cluster, shared, static_cast<Stream*>(stream), params,
               extra);
}

#if FAKE_LACKS < 1
FAKE_API Status cuLaunchKernelEx(const void* config, void* function, void** params, void** extra) {
  ENTER(cuLaunchKernelEx)
  // CUlaunchConfig: seven words and a hole, the stream, the attributes and their number.
  unsigned words[8];
  struct Attribute {
    int id, pad;
    unsigned value[16];
  };
  std::memcpy(words, config, sizeof words);
  const auto* bytes = static_cast<const char*>(config);
  void* stream = *reinterpret_cast<void* const*>(bytes + 32);
  const auto* attribute = *reinterpret_cast<const Attribute* const*>(bytes + 40);
  unsigned cluster[3] = {1, 1, 1};
  bool early = false;
  for (unsigned i = 0; i < *reinterpret_cast<const unsigned*>(bytes + 48); ++i, ++attribute) {
    if (attribute->id == 4) {
      std::memcpy(cluster, attribute->value, sizeof cluster);
    } else if (attribute->id == 6 && attribute->value[0] == 1) {
      early = true;
    } else {
      misuse("attributes of a launch");
      return 1;
    }
  }
  return start(static_cast<Function*>(function), words, words + 3, cluster, words[6], static_cast<Stream*>(stream),
               params, extra, early);
}
FAKE_API Status cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* dims,
                                       const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                                       int interleave, int swizzle, int promotion, int fill) {
  if (state().quiet) return 0;
  ENTER(cuTensorMapEncodeTiled)
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) misuse("a tensor map that is not aligned");
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return 1;
  FakeTensorMap out{type, rank, address, {}, {}, {}, {}, interleave, swizzle, promotion, fill, map};
  std::memcpy(out.dims, dims, rank * sizeof *dims);
  std::memcpy(out.strides, strides, (rank - 1) * sizeof *strides);
  std::memcpy(out.box, box, rank * sizeof *box);
  std::memcpy(out.element_strides, element_strides, rank * sizeof *element_strides);
  state().maps.push_back(out);
  std::memset(map, static_cast<int>(state().maps.size()), 128);  // the map of number n is bytes of n
  return 0;
}
#endif
