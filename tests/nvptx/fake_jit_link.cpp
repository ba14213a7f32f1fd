// libnvJitLink in name only: its cubin says so, and it refuses code with the words of FAKE_JIT_LINK_REFUSES.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr char kCubin[] = "the library's cubin";

const char* refusal() {
  const char* words = std::getenv("FAKE_JIT_LINK_REFUSES");
  return words ? words : "";
}

}  // namespace

FAKE_API int nvJitLinkCreate(void** handle, uint32_t, const char**) {
  static int link;
  *handle = &link;
  return 0;
}
FAKE_API int nvJitLinkDestroy(void**) { return 0; }
FAKE_API int nvJitLinkAddData(void*, int, const void*, size_t, const char*) { return *refusal() ? 4 : 0; }
FAKE_API int nvJitLinkComplete(void*) { return 0; }
FAKE_API int nvJitLinkGetLinkedCubinSize(void*, size_t* size) {
  *size = std::strlen(kCubin);
  return 0;
}
FAKE_API int nvJitLinkGetLinkedCubin(void*, void* out) {
  std::memcpy(out, kCubin, std::strlen(kCubin));
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
