// Opens AMD's HIP runtime and looks its functions up. A library is opened once and never closed, as CUDA's is.
#include "hip_api.h"

#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kiln/wire/library.h"
#include "symbols.h"

namespace kiln::client::gpu::hip {
namespace {

std::string look_up(void* library, Api& api) {
  Symbols symbols(library);
  symbols.required("hipInit", api.init);
  symbols.required("hipGetErrorName", api.error_name);
  symbols.required("hipGetErrorString", api.error_string);
  symbols.required("hipGetDeviceCount", api.device_count);
  symbols.required("hipDeviceGetName", api.device_name);
  symbols.required("hipDeviceTotalMem", api.device_memory);
  symbols.required("hipDeviceGetAttribute", api.device_attribute);
  // HIP 6 has its own layout of the properties under a name of its own.
  symbols.optional("hipGetDevicePropertiesR0600", api.device_properties);
  if (api.device_properties == nullptr) symbols.required("hipGetDeviceProperties", api.device_properties);
  symbols.required("hipGetDevice", api.current_device);
  symbols.required("hipSetDevice", api.set_device);
  symbols.required("hipDeviceSynchronize", api.synchronise);
  symbols.required("hipMalloc", api.allocate);
  symbols.required("hipFree", api.free);
  symbols.required("hipMemcpyAsync", api.copy);
  symbols.required("hipMemsetAsync", api.fill);
  symbols.required("hipStreamCreateWithFlags", api.create_stream);
  symbols.required("hipStreamDestroy", api.destroy_stream);
  symbols.required("hipStreamSynchronize", api.synchronise_stream);
  symbols.required("hipStreamWaitEvent", api.wait_for_event);
  symbols.required("hipEventCreateWithFlags", api.create_event);
  symbols.required("hipEventDestroy", api.destroy_event);
  symbols.required("hipEventRecord", api.record_event);
  symbols.required("hipEventSynchronize", api.synchronise_event);
  symbols.required("hipEventQuery", api.query_event);
  symbols.required("hipEventElapsedTime", api.elapsed_time);
  symbols.required("hipStreamBeginCapture", api.begin_capture);
  symbols.required("hipStreamEndCapture", api.end_capture);
  symbols.required("hipGraphInstantiate", api.instantiate_graph);
  symbols.required("hipGraphLaunch", api.launch_graph);
  symbols.required("hipGraphDestroy", api.destroy_graph);
  symbols.required("hipGraphExecDestroy", api.destroy_executable);
  symbols.required("hipModuleLoadData", api.load_module);
  symbols.required("hipModuleUnload", api.unload_module);
  symbols.required("hipModuleGetFunction", api.find_function);
  symbols.required("hipModuleLaunchKernel", api.launch);
  return symbols.missing();
}

// The first of these that is there.
void* open_first(const std::vector<std::string>& paths, std::string& why) {
  for (const std::string& path : paths) {
    auto library = wire::open_trusted_library(path);
    if (library) return *library;
    if (why.empty()) why = path + ": " + library.error().message;
  }
  return nullptr;
}

// "" stands for where the runtime lies as a rule.
Result<std::unique_ptr<const Api>> open_library(const std::string& named) {
  std::vector<std::string> paths = {named};
  if (named.empty())
    paths = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so"};
  std::string why;
  void* library = open_first(paths, why);
  if (library == nullptr) return error(ErrorCode::kUnavailable, "no HIP runtime (" + why + ")");
  auto api = std::make_unique<Api>();
  if (const std::string missing = look_up(library, *api); !missing.empty()) {
    return error(ErrorCode::kUnavailable,
                 "the HIP runtime is too old: it has no " + missing + "; what Kiln needs is that of ROCm 5.0 or later");
  }
  if (const Status status = api->init(0); status != kSuccess) {
    return error(ErrorCode::kUnavailable,
                 "the HIP runtime does not start: " + describe(*api, status) + closed_files(kAmdFiles));
  }
  return std::unique_ptr<const Api>(std::move(api));
}

}  // namespace

Result<const Api*> load_api() {
  // Never destroyed: other threads may use a device while exit() destroys statics.
  static auto& libraries = *new OpenedLibraries<Api>;
  const char* named = ::secure_getenv("KILN_HIP_DRIVER");
  return libraries.get(named != nullptr ? named : "", open_library);
}

std::string describe(const Api& api, Status status) {
  const char *name = api.error_name(status), *text = api.error_string(status);
  if (name == nullptr) return "HIP error " + std::to_string(status);
  return text == nullptr ? name : std::string(text) + " (" + name + ")";
}

bool is_sticky(Status status) {
  switch (status) {
    case kIllegalAddress:
    case kLaunchTimeout:
    case 709:  // hipErrorContextIsDestroyed
    case kAssert:
    case kLaunchFailure:
    case 214:  // hipErrorECCNotCorrectable
      return true;
    default:
      return false;
  }
}

// gcnArchName, "gfx942:sramecc+:xnack-", is the one field of the properties that looks like this; the device's name,
// 256 bytes before all others, may hold anything.
std::string processor_of(std::string_view properties) {
  constexpr size_t kNameBytes = 256;
  constexpr std::string_view kPrefix = "gfx";
  for (size_t at = properties.find(kPrefix, kNameBytes); at != std::string_view::npos;
       at = properties.find(kPrefix, at + 1)) {
    size_t end = at + kPrefix.size();
    while (end < properties.size() && std::isxdigit(static_cast<unsigned char>(properties[end])) != 0) ++end;
    const bool ends = end < properties.size() && (properties[end] == 0 || properties[end] == ':');
    if (ends && end >= at + kPrefix.size() + 3) return std::string(properties.substr(at, end - at));
  }
  return "";
}

}  // namespace kiln::client::gpu::hip
