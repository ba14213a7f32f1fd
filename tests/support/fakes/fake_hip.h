// Control of the fake HIP runtime: a shared library with the runtime's symbols that keeps "device" memory in the
// host's, runs host functions as kernels, and fails on demand. A small sister of fake_cuda.h: what is above the
// vendor's seam is tested there. In other processes than the test's FAKE_HIP_KERNEL=FILE names a library whose
// kiln_entry is what each kernel does; there is one device then.
#pragma once

#include <cstddef>
#include <cstdint>

#define FAKE_API extern "C" __attribute__((visibility("default")))

struct FakeHipLaunch {
  char entry[64];
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void* stream;
  int device;
  size_t bytes;
  unsigned char params[512];
};
using FakeHipKernel = void (*)(const unsigned char* params, const unsigned grid[3]);

// Forgets everything and starts with so many devices, which are gfx942 and gfx1100 in turns.
FAKE_API void fake_hip_reset(int devices);
// The next call of this function gives `status`.
FAKE_API void fake_hip_fail(const char* function, int status);
// What kernels of any name do.
FAKE_API void fake_hip_kernel(FakeHipKernel kernel);
FAKE_API size_t fake_hip_launches();
FAKE_API const FakeHipLaunch* fake_hip_launch(size_t number);
// Objects of all kinds that are there.
FAKE_API long fake_hip_live();
// The first call that no correct program makes, or "".
FAKE_API const char* fake_hip_misuse();
