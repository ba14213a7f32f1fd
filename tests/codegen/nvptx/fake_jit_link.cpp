// libnvJitLink in name only: its cubin says so, and it refuses code with the words of FAKE_JIT_LINK_REFUSES. Without
// the option -no-cache, which it does not know with FAKE_JIT_LINK_HAS_NO_CACHE, the cubin is one of a cache.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

const char* cubin = nullptr;

const char* refusal() {
  const char* words = std::getenv("FAKE_JIT_LINK_REFUSES");
  return words ? words : "";
}

}  // namespace

FAKE_API int nvJitLinkCreate(void** handle, uint32_t count, const char** options) {
  static int link;
  bool is_cached = std::getenv("FAKE_JIT_LINK_HAS_NO_CACHE") == nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    if (std::strcmp(options[i], "-no-cache") != 0) continue;
    if (!is_cached) return 1;
    is_cached = false;
  }
  cubin = is_cached ? "a cubin of the cache" : "the library's cubin";
  *handle = &link;
  return 0;
}
FAKE_API int nvJitLinkDestroy(void**) { return 0; }
FAKE_API int nvJitLinkAddData(void*, int, const void*, size_t, const char*) { return *refusal() ? 4 : 0; }
FAKE_API int nvJitLinkComplete(void*) { return 0; }
FAKE_API int nvJitLinkGetLinkedCubinSize(void*, size_t* size) {
  *size = std::strlen(cubin);
  return 0;
}
FAKE_API int nvJitLinkGetLinkedCubin(void*, void* out) {
  std::memcpy(out, cubin, std::strlen(cubin));
  return 0;
}
FAKE_API int nvJitLinkGetErrorLogSize(void*, size_t* size) {
  *size = std::strlen(refusal()) + 1;
  return 0;
}
FAKE_API int nvJitLinkGetErrorLog(void*, char* out) {
  std::strcpy(out, refusal());
  return 0;
}
FAKE_API int nvJitLinkGetInfoLogSize(void*, size_t* size) {
  *size = 0;
  return 0;
}
FAKE_API int nvJitLinkGetInfoLog(void*, char*) { return 0; }
FAKE_API int nvJitLinkVersion(unsigned* major, unsigned* minor) {
  *major = 12, *minor = 3;
  return 0;
}
