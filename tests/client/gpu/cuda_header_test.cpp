// Our declarations of the CUDA Driver API against NVIDIA's own header, where a toolkit is installed.
#include <gtest/gtest.h>

#ifdef KILN_HAVE_CUDA_H

#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "gpu/cuda_api.h"

namespace kiln::client::gpu::cuda {
namespace {

// Passed alike: as many parameters, each of the same size and of the same kind.
template <class Ours, class Theirs>
constexpr bool same_kind = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class... Ours, class Result, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameCall<Status (*)(Ours...), Result (*)(Theirs...)>
    : std::bool_constant<sizeof(Result) == sizeof(Status) && (same_kind<Ours, Theirs> && ...)> {};

#define EXPECT_SAME_CALL(member, function) static_assert(SameCall<decltype(Api::member), decltype(&function)>::value)
EXPECT_SAME_CALL(init, cuInit);
EXPECT_SAME_CALL(driver_version, cuDriverGetVersion);
EXPECT_SAME_CALL(error_name, cuGetErrorName);
EXPECT_SAME_CALL(error_string, cuGetErrorString);
EXPECT_SAME_CALL(device_count, cuDeviceGetCount);
EXPECT_SAME_CALL(device, cuDeviceGet);
EXPECT_SAME_CALL(device_name, cuDeviceGetName);
EXPECT_SAME_CALL(device_memory, cuDeviceTotalMem);
EXPECT_SAME_CALL(device_attribute, cuDeviceGetAttribute);
EXPECT_SAME_CALL(retain_context, cuDevicePrimaryCtxRetain);
EXPECT_SAME_CALL(release_context, cuDevicePrimaryCtxRelease);
EXPECT_SAME_CALL(current_context, cuCtxGetCurrent);
EXPECT_SAME_CALL(set_current_context, cuCtxSetCurrent);
EXPECT_SAME_CALL(synchronise, cuCtxSynchronize);
EXPECT_SAME_CALL(allocate, cuMemAlloc);
EXPECT_SAME_CALL(free, cuMemFree);
EXPECT_SAME_CALL(copy, cuMemcpyAsync);
EXPECT_SAME_CALL(fill, cuMemsetD8Async);
EXPECT_SAME_CALL(create_stream, cuStreamCreate);
EXPECT_SAME_CALL(destroy_stream, cuStreamDestroy);
EXPECT_SAME_CALL(synchronise_stream, cuStreamSynchronize);
EXPECT_SAME_CALL(wait_for_event, cuStreamWaitEvent);
EXPECT_SAME_CALL(create_event, cuEventCreate);
EXPECT_SAME_CALL(destroy_event, cuEventDestroy);
EXPECT_SAME_CALL(record_event, cuEventRecord);
EXPECT_SAME_CALL(synchronise_event, cuEventSynchronize);
EXPECT_SAME_CALL(query_event, cuEventQuery);
EXPECT_SAME_CALL(elapsed_time, cuEventElapsedTime);
EXPECT_SAME_CALL(begin_capture, cuStreamBeginCapture);
EXPECT_SAME_CALL(end_capture, cuStreamEndCapture);
EXPECT_SAME_CALL(instantiate_graph, cuGraphInstantiate);
EXPECT_SAME_CALL(launch_graph, cuGraphLaunch);
EXPECT_SAME_CALL(destroy_graph, cuGraphDestroy);
EXPECT_SAME_CALL(destroy_executable, cuGraphExecDestroy);
EXPECT_SAME_CALL(load_module, cuModuleLoadDataEx);
EXPECT_SAME_CALL(unload_module, cuModuleUnload);
EXPECT_SAME_CALL(find_function, cuModuleGetFunction);
EXPECT_SAME_CALL(set_function_attribute, cuFuncSetAttribute);
EXPECT_SAME_CALL(launch, cuLaunchKernel);
EXPECT_SAME_CALL(launch_ex, cuLaunchKernelEx);
EXPECT_SAME_CALL(encode_tiled, cuTensorMapEncodeTiled);

static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));

TEST(CudaHeader, ValuesAreThoseOfTheToolkit) {
  EXPECT_EQ(kSuccess, CUDA_SUCCESS);
  EXPECT_EQ(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kL2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(kMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(kMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
  EXPECT_EQ(kJitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  EXPECT_EQ(kJitGenerateLineInfo, CU_JIT_GENERATE_LINE_INFO);
  EXPECT_EQ(kStreamNonBlocking, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(kEventDefault, unsigned{CU_EVENT_DEFAULT});
  EXPECT_EQ(kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(kLaunchParamEnd, uintptr_t{CU_LAUNCH_PARAM_END_AS_INT});
  EXPECT_EQ(kLaunchParamBufferPointer, uintptr_t{CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT});
  EXPECT_EQ(kLaunchParamBufferSize, uintptr_t{CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT});
  EXPECT_EQ(kClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(kProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(kU8, int{CU_TENSOR_MAP_DATA_TYPE_UINT8});
  EXPECT_EQ(kU16, int{CU_TENSOR_MAP_DATA_TYPE_UINT16});
  EXPECT_EQ(kU32, int{CU_TENSOR_MAP_DATA_TYPE_UINT32});
  EXPECT_EQ(kI32, int{CU_TENSOR_MAP_DATA_TYPE_INT32});
  EXPECT_EQ(kU64, int{CU_TENSOR_MAP_DATA_TYPE_UINT64});
  EXPECT_EQ(kI64, int{CU_TENSOR_MAP_DATA_TYPE_INT64});
  EXPECT_EQ(kF16, int{CU_TENSOR_MAP_DATA_TYPE_FLOAT16});
  EXPECT_EQ(kF32, int{CU_TENSOR_MAP_DATA_TYPE_FLOAT32});
  EXPECT_EQ(kF64, int{CU_TENSOR_MAP_DATA_TYPE_FLOAT64});
  EXPECT_EQ(kBF16, int{CU_TENSOR_MAP_DATA_TYPE_BFLOAT16});
  EXPECT_EQ(kInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
  EXPECT_EQ(kSwizzleNone, int{CU_TENSOR_MAP_SWIZZLE_NONE});
  EXPECT_EQ(kSwizzle32, int{CU_TENSOR_MAP_SWIZZLE_32B});
  EXPECT_EQ(kSwizzle64, int{CU_TENSOR_MAP_SWIZZLE_64B});
  EXPECT_EQ(kSwizzle128, int{CU_TENSOR_MAP_SWIZZLE_128B});
  EXPECT_EQ(kL2Promotion128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
  EXPECT_EQ(kOutOfBoundsZero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  EXPECT_EQ(kOutOfBoundsNan, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
}

TEST(CudaHeader, StickyErrorsAreThoseThatEndAProcess) {
  for (int status :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_CONTAINED, CUDA_ERROR_EXTERNAL_DEVICE}) {
    EXPECT_TRUE(is_sticky(status)) << status;
  }
  for (int status : {CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_READY,
                     CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}) {
    EXPECT_FALSE(is_sticky(status)) << status;
  }
}

}  // namespace
}  // namespace kiln::client::gpu::cuda

#else

TEST(CudaHeader, ValuesAreThoseOfTheToolkit) { GTEST_SKIP() << "no cuda.h on this machine"; }

#endif
