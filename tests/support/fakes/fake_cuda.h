// Control of the fake CUDA driver: a shared library with the driver's symbols that keeps "device" memory in the host's,
// runs host functions as kernels, notes every call, and fails on demand. In other processes than the test's
// FAKE_CUDA_KERNEL=FILE names a library whose kiln_entry is what each kernel does; a result that is not 0 is an error.
#pragma once

#include <cstddef>
#include <cstdint>

#define FAKE_API extern "C" __attribute__((visibility("default")))

struct FakeLaunch {
  char entry[64];
  unsigned grid[3], block[3], cluster[3];
  unsigned shared_bytes;
  bool early;  // programmatic stream serialization is allowed
  void* stream;
  int device;
  size_t bytes;
  unsigned char params[4096];
};

struct FakeTensorMap {
  int type;
  uint32_t rank;
  void* address;
  uint64_t dims[5], strides[5];
  uint32_t box[5], element_strides[5];
  int interleave, swizzle, promotion, fill;
  void* map;
};

using FakeKernel = void (*)(const unsigned char* params, const unsigned grid[3]);

// Forgets everything and starts with so many devices of compute capability 9.0.
FAKE_API void fake_reset(int devices);
FAKE_API void fake_set_capability(int device, int major, int minor);
// The call after `skip` more calls of this function gives `status`, once.
FAKE_API void fake_fail(const char* function, int status, int skip);
// Every call on the device's context gives `status` from now on, as after a fault of a kernel.
FAKE_API void fake_break(int device, int status);
// The text of the next module that does not load.
FAKE_API void fake_jit_log(const char* text);
// An option of the last module that was loaded; 0: it was not given.
FAKE_API size_t fake_jit_option(int option);
// What a kernel of this name does.
FAKE_API void fake_kernel(const char* entry, FakeKernel kernel);
// Launches and tensor maps are not noted, and cost next to nothing.
FAKE_API void fake_quiet(bool quiet);

FAKE_API size_t fake_launches();
FAKE_API const FakeLaunch* fake_launch(size_t number);
FAKE_API size_t fake_tensor_maps();
FAKE_API const FakeTensorMap* fake_tensor_map(size_t number);
FAKE_API size_t fake_calls(const char* function);
// How many there are of "memory", "stream", "event", "module", "graph", "context".
FAKE_API long fake_live(const char* what);
// The first call that no correct program makes, or "".
FAKE_API const char* fake_misuse();
// The attribute that was set last on any function, and its value.
FAKE_API int fake_attribute();
FAKE_API int fake_attribute_value();
