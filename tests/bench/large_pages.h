// Arrays of all sides in large pages, as those of HostMemory are: a fair share of the TLB.
#pragma once

#include <stdlib.h>
#include <unistd.h>

namespace kiln::bench {

// Starts the program anew with a malloc that asks for large pages, its children too (PyTorch): glibc is told so by the
// environment alone. Where it is told something already, or does not know of it, everything stays as it is.
inline void take_large_pages(char** arguments) {
  if (::getenv("GLIBC_TUNABLES") != nullptr) return;
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
  ::execv("/proc/self/exe", arguments);
}

}  // namespace kiln::bench
