/* Stands in for tools that take ranges: a library that NVTX 3 loads, and the one of roctx. Each call is a line on the
   standard error. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static int push_nvtx(const char* name) { return fprintf(stderr, "nvtx push %s\n", name); }
static int pop_nvtx(void) { return fprintf(stderr, "nvtx pop\n"); }

typedef void (*function)(void);
struct callbacks {
  size_t bytes;
  int (*places)(uint32_t module, function*** out, unsigned* count);
};
struct version {
  size_t bytes;
  uint32_t version, reserved;
  void (*set)(uint32_t version);
};

enum { kCallbacks = 1, kVersion = 3, kCore = 1, kCore2 = 5, kRangePushA = 9, kRangePop = 11, kInitialise = 15 };

static int fills_in(const struct callbacks* callbacks) {
  function **core = NULL, **core2 = NULL;
  unsigned count = 0, count2 = 0;
  if (!callbacks->places(kCore, &core, &count) || count <= kRangePop) return 0;
  if (!callbacks->places(kCore2, &core2, &count2) || count2 <= kInitialise) return 0;
  if (callbacks->places(0, &core2, &count2) || callbacks->places(99, &core2, &count2)) return 0;
  *core[kRangePushA] = (function)push_nvtx;
  *core[kRangePop] = (function)pop_nvtx;
  return 1;
}

int InitializeInjectionNvtx2(const void* (*table)(uint32_t number)) {
  const struct version* version = table(kVersion);
  const struct callbacks* callbacks = table(kCallbacks);
  if (table(99) != NULL || version == NULL || version->bytes != sizeof *version || version->version != 3) return 0;
  version->set(3);
  return callbacks != NULL && callbacks->bytes == sizeof *callbacks && fills_in(callbacks);
}

int roctxRangePushA(const char* name) { return fprintf(stderr, "roctx push %s\n", name); }
int roctxRangePop(void) { return fprintf(stderr, "roctx pop\n"); }
