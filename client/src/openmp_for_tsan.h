// What the thread sanitizer must be told of OpenMP: a parallel region begins behind all that its thread did before, and
// what its threads did comes before what is behind it. Debian's libgomp is not instrumented, so that each loop would be
// taken for a race. These stand before the library's own functions in every program that launches kernels, for all its
// regions; races inside of a region are found as elsewhere. Only one file of a program may include this.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <dlfcn.h>

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
void GOMP_barrier();
void GOMP_atomic_start();
void GOMP_atomic_end();
}

namespace kiln::client {

struct ParallelRegion {
  void (*body)(void*);
  void* data;
};

inline void run_region(void* region) {
  __tsan_acquire(region);
  const auto* what = static_cast<const ParallelRegion*>(region);
  what->body(what->data);
  __tsan_release(region);
}

template <class Function>
Function* of_the_library(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace kiln::client

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  static const auto real = kiln::client::of_the_library<decltype(GOMP_parallel)>("GOMP_parallel");
  kiln::client::ParallelRegion region{body, data};
  __tsan_release(&region);
  real(kiln::client::run_region, &region, threads, flags);
  __tsan_acquire(&region);
}

// All barriers are taken for one: more order than there is, and no false report.
extern "C" void GOMP_barrier() {
  static const auto real = kiln::client::of_the_library<decltype(GOMP_barrier)>("GOMP_barrier");
  static char barrier;
  __tsan_release(&barrier);
  real();
  __tsan_acquire(&barrier);
}

// Around what has several reductions, whose parts are put together one thread after the other.
inline char g_reduction = 0;
extern "C" void GOMP_atomic_start() {
  static const auto real = kiln::client::of_the_library<decltype(GOMP_atomic_start)>("GOMP_atomic_start");
  real();
  __tsan_acquire(&g_reduction);
}
extern "C" void GOMP_atomic_end() {
  static const auto real = kiln::client::of_the_library<decltype(GOMP_atomic_end)>("GOMP_atomic_end");
  __tsan_release(&g_reduction);
  real();
}
#endif
