// The part of the CUDA Driver API that Kiln calls, declared from its documentation so that no CUDA header is needed;
// all values and layouts are those of "CUDA Driver API", CUDA 13.0. The library is opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kiln/dsl/result.h"
#include "vendor.h"

namespace kiln::client::gpu::cuda {

using Address = unsigned long long;
using Handle = void*;  // CUcontext, CUmodule, CUfunction, CUstream, CUevent, CUgraph, CUgraphExec
using DeviceNumber = int;

// CUdevice_attribute
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kL2CacheSize = 38;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxSharedMemoryPerBlockOptin = 97;
// CUfunction_attribute
inline constexpr int kMaxDynamicSharedSizeBytes = 8;
// CUjit_option
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferSizeBytes = 6;
inline constexpr int kJitGenerateLineInfo = 13;
// CUstream_flags, CUevent_flags, CUstreamCaptureMode
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr int kCaptureModeRelaxed = 2;
// CU_LAUNCH_PARAM_…: keys of the `extra` of a launch
inline constexpr uintptr_t kLaunchParamEnd = 0;
inline constexpr uintptr_t kLaunchParamBufferPointer = 1;
inline constexpr uintptr_t kLaunchParamBufferSize = 2;
// CUlaunchAttributeID
inline constexpr int kClusterDimension = 4;
inline constexpr int kProgrammaticStreamSerialization = 6;
// CUtensorMap…
enum TensorMapType : int { kU8 = 0, kU16, kU32, kI32, kU64, kI64, kF16, kF32, kF64, kBF16 };
inline constexpr int kInterleaveNone = 0;
enum TensorMapSwizzle : int { kSwizzleNone = 0, kSwizzle32, kSwizzle64, kSwizzle128 };
inline constexpr int kL2Promotion128 = 2;
inline constexpr int kOutOfBoundsZero = 0, kOutOfBoundsNan = 1;

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int early;  // programmaticStreamSerializationAllowed
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Handle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct Api {
  Status (*init)(unsigned flags);
  Status (*driver_version)(int* version);
  Status (*error_name)(Status status, const char** name);
  Status (*error_string)(Status status, const char** text);

  Status (*device_count)(int* count);
  Status (*device)(DeviceNumber* device, int ordinal);
  Status (*device_name)(char* name, int length, DeviceNumber device);
  Status (*device_memory)(size_t* bytes, DeviceNumber device);
  Status (*device_attribute)(int* value, int attribute, DeviceNumber device);

  Status (*retain_context)(Handle* context, DeviceNumber device);
  Status (*release_context)(DeviceNumber device);
  Status (*current_context)(Handle* context);
  Status (*set_current_context)(Handle context);
  Status (*synchronise)();

  Status (*allocate)(Address* memory, size_t bytes);
  Status (*free)(Address memory);
  Status (*copy)(Address to, Address from, size_t bytes, Handle stream);
  Status (*fill)(Address to, unsigned char value, size_t count, Handle stream);

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
  Status (*instantiate_graph)(Handle* executable, Handle graph, unsigned long long flags);
  Status (*launch_graph)(Handle executable, Handle stream);
  Status (*destroy_graph)(Handle graph);
  Status (*destroy_executable)(Handle executable);

  Status (*load_module)(Handle* module, const void* image, unsigned count, int* options, void** values);
  Status (*unload_module)(Handle module);
  Status (*find_function)(Handle* function, Handle module, const char* name);
  Status (*set_function_attribute)(Handle function, int attribute, int value);
  Status (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** params,
                   void** extra);

  // Null where the driver is too old for them.
  Status (*launch_ex)(const LaunchConfig* config, Handle function, void** params, void** extra);
  Status (*encode_tiled)(void* map, int type, uint32_t rank, void* address, const uint64_t* dims,
                         const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave,
                         int swizzle, int promotion, int fill);

  int version = 0;  // 13000 is CUDA 13.0
};

// The driver of KILN_CUDA_DRIVER, else libcuda.so.1, opened and initialised; it stays for the life of the process.
Result<const Api*> load_api();

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
std::string describe(const Api& api, Status status);
// Those of which the documentation says that the process "must be terminated and relaunched".
bool is_sticky(Status status);

}  // namespace kiln::client::gpu::cuda
