// The part of the HIP runtime API that Kiln calls, declared from its documentation so that no HIP header is needed; all
// values are those of "HIP Runtime API Reference", HIP 5.2 to 6.x. The library is opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kiln/dsl/result.h"
#include "vendor.h"

namespace kiln::client::gpu::hip {

using Handle = void*;  // hipModule_t, hipFunction_t, hipStream_t, hipEvent_t, hipGraph_t, hipGraphExec_t

// hipDeviceAttribute_t
inline constexpr int kMultiprocessorCount = 63;
inline constexpr int kMaxSharedMemoryPerBlock = 74;
// hipMemcpyKind: by the addresses
inline constexpr int kMemcpyDefault = 4;
// Flags of streams and events, hipStreamCaptureMode
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr int kCaptureModeRelaxed = 2;
// HIP_LAUNCH_PARAM_…: keys of the `extra` of a launch
inline constexpr uintptr_t kLaunchParamBufferPointer = 1;
inline constexpr uintptr_t kLaunchParamBufferSize = 2;
inline constexpr uintptr_t kLaunchParamEnd = 3;

struct Api {
  Status (*init)(unsigned flags);
  const char* (*error_name)(Status status);
  const char* (*error_string)(Status status);

  Status (*device_count)(int* count);
  Status (*device_name)(char* name, int length, int device);
  Status (*device_memory)(size_t* bytes, int device);
  Status (*device_attribute)(int* value, int attribute, int device);
  // hipDeviceProp_t, whose layout is not the same in all versions.
  Status (*device_properties)(void* properties, int device);
  Status (*current_device)(int* device);
  Status (*set_device)(int device);
  Status (*synchronise)();

  Status (*allocate)(void** memory, size_t bytes);
  Status (*free)(void* memory);
  Status (*copy)(void* to, const void* from, size_t bytes, int kind, Handle stream);
  Status (*fill)(void* to, int value, size_t bytes, Handle stream);

  Status (*create_stream)(Handle* stream, unsigned flags);
  Status (*destroy_stream)(Handle stream);
  Status (*synchronise_stream)(Handle stream);
  Status (*wait_for_event)(Handle stream, Handle event, unsigned flags);

  Status (*create_event)(Handle* event, unsigned flags);
  Status (*destroy_event)(Handle event);
  Status (*record_event)(Handle event, Handle stream);
  Status (*synchronise_event)(Handle event);
  Status (*query_event)(Handle event);
  Status (*elapsed_time)(float* milliseconds, Handle from, Handle to);

  Status (*begin_capture)(Handle stream, int mode);
  Status (*end_capture)(Handle stream, Handle* graph);
  Status (*instantiate_graph)(Handle* executable, Handle graph, Handle* node, char* log, size_t log_bytes);
  Status (*launch_graph)(Handle executable, Handle stream);
  Status (*destroy_graph)(Handle graph);
  Status (*destroy_executable)(Handle executable);

  Status (*load_module)(Handle* module, const void* image);
  Status (*unload_module)(Handle module);
  Status (*find_function)(Handle* function, Handle module, const char* name);
  Status (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** params,
                   void** extra);
};

// The library of KILN_HIP_DRIVER, else libamdhip64, opened and initialised; it stays for the life of the process.
Result<const Api*> load_api();

// "out of memory (hipErrorOutOfMemory)"
std::string describe(const Api& api, Status status);
// After these only a new process helps.
bool is_sticky(Status status);
// The processor's name, "gfx942", without features; "" where the driver does not say. `properties` are a device's.
std::string processor_of(std::string_view properties);

}  // namespace kiln::client::gpu::hip
