// Opens the CUDA driver and looks its functions up. A library is opened once and never closed: it has threads of its
// own and memory that contexts of other libraries use.
#include "cuda_api.h"

#include <cstdlib>
#include <memory>

#include "kiln/wire/library.h"
#include "symbols.h"

namespace kiln::client::gpu::cuda {
namespace {

std::string version_text(int version) {
  if (version == 0) return "of an unknown version";
  return "for CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Versions are part of a function's name.
std::string look_up(void* library, Api& api) {
  Symbols symbols(library);
  symbols.required("cuInit", api.init);
  symbols.required("cuDriverGetVersion", api.driver_version);
  symbols.required("cuGetErrorName", api.error_name);
  symbols.required("cuGetErrorString", api.error_string);
  symbols.required("cuDeviceGetCount", api.device_count);
  symbols.required("cuDeviceGet", api.device);
  symbols.required("cuDeviceGetName", api.device_name);
  symbols.required("cuDeviceTotalMem_v2", api.device_memory);
  symbols.required("cuDeviceGetAttribute", api.device_attribute);
  symbols.required("cuDevicePrimaryCtxRetain", api.retain_context);
  symbols.required("cuDevicePrimaryCtxRelease_v2", api.release_context);
  symbols.required("cuCtxGetCurrent", api.current_context);
  symbols.required("cuCtxSetCurrent", api.set_current_context);
  symbols.required("cuCtxSynchronize", api.synchronise);
  symbols.required("cuMemAlloc_v2", api.allocate);
  symbols.required("cuMemFree_v2", api.free);
  symbols.required("cuMemcpyAsync", api.copy);
  symbols.required("cuMemsetD8Async", api.fill);
  symbols.required("cuStreamCreate", api.create_stream);
  symbols.required("cuStreamDestroy_v2", api.destroy_stream);
  symbols.required("cuStreamSynchronize", api.synchronise_stream);
  symbols.required("cuStreamWaitEvent", api.wait_for_event);
  symbols.required("cuEventCreate", api.create_event);
  symbols.required("cuEventDestroy_v2", api.destroy_event);
  symbols.required("cuEventRecord", api.record_event);
  symbols.required("cuEventSynchronize", api.synchronise_event);
  symbols.required("cuEventQuery", api.query_event);
  symbols.required("cuEventElapsedTime", api.elapsed_time);
  symbols.required("cuStreamBeginCapture_v2", api.begin_capture);
  symbols.required("cuStreamEndCapture", api.end_capture);
  symbols.required("cuGraphInstantiateWithFlags", api.instantiate_graph);
  symbols.required("cuGraphLaunch", api.launch_graph);
  symbols.required("cuGraphDestroy", api.destroy_graph);
  symbols.required("cuGraphExecDestroy", api.destroy_executable);
  symbols.required("cuModuleLoadDataEx", api.load_module);
  symbols.required("cuModuleUnload", api.unload_module);
  symbols.required("cuModuleGetFunction", api.find_function);
  symbols.required("cuFuncSetAttribute", api.set_function_attribute);
  symbols.required("cuLaunchKernel", api.launch);
  symbols.optional("cuLaunchKernelEx", api.launch_ex);
  symbols.optional("cuTensorMapEncodeTiled", api.encode_tiled);
  if (api.driver_version != nullptr && api.driver_version(&api.version) != kSuccess) api.version = 0;
  return symbols.missing();
}

Result<std::unique_ptr<const Api>> open_library(const std::string& path) {
  auto library = wire::open_trusted_library(path);
  if (!library) {
    return error(ErrorCode::kUnavailable, "no CUDA driver (" + path + ": " + library.error().message + ")");
  }
  auto api = std::make_unique<Api>();
  if (const std::string missing = look_up(*library, *api); !missing.empty()) {
    return error(ErrorCode::kUnavailable, "the CUDA driver " + path + " is too old: it is " +
                                              version_text(api->version) + " and has no " + missing +
                                              "; what Kiln needs is a driver of CUDA 11.8 or later");
  }
  if (const Status status = api->init(0); status != kSuccess) {
    return error(ErrorCode::kUnavailable,
                 "the CUDA driver " + path + " does not start: " + describe(*api, status) + closed_files(kCudaFiles));
  }
  return std::unique_ptr<const Api>(std::move(api));
}

}  // namespace

Result<const Api*> load_api() {
  // Never destroyed: other threads may use a device while exit() destroys statics.
  static auto& libraries = *new OpenedLibraries<Api>;
  const char* named = ::secure_getenv("KILN_CUDA_DRIVER");
  return libraries.get(named != nullptr && *named != 0 ? named : "libcuda.so.1", open_library);
}

std::string describe(const Api& api, Status status) {
  const char *name = nullptr, *text = nullptr;
  if (api.error_name(status, &name) != kSuccess || name == nullptr) return "CUDA error " + std::to_string(status);
  if (api.error_string(status, &text) != kSuccess || text == nullptr) return name;
  return std::string(text) + " (" + name + ")";
}

bool is_sticky(Status status) {
  switch (status) {
    case 226:  // CUDA_ERROR_CONTAINED
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert:
    case 714:  // CUDA_ERROR_HARDWARE_STACK_ERROR
    case 715:  // CUDA_ERROR_ILLEGAL_INSTRUCTION
    case 716:  // CUDA_ERROR_MISALIGNED_ADDRESS
    case 717:  // CUDA_ERROR_INVALID_ADDRESS_SPACE
    case 718:  // CUDA_ERROR_INVALID_PC
    case kLaunchFailure:
    case 721:  // CUDA_ERROR_TENSOR_MEMORY_LEAK
    case 911:  // CUDA_ERROR_EXTERNAL_DEVICE
      return true;
    default:
      return false;
  }
}

}  // namespace kiln::client::gpu::cuda
