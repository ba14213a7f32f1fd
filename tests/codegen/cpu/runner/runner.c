/* Runs one compiled kernel: runner KERNEL.so ENTRY CASE. Or says how long scalable vectors are: runner --sve-bits. The
 * case holds the launch, and is overwritten with the buffers as the kernel leaves them. Written by run_elsewhere.h, in
 * the byte order of both machines: u64 parameter bytes, scratch bytes, workspace bytes, grid x, y, z, arguments an
 * argument: u64 offset, u64 size in the parameter block, u64 bytes of its buffer (0: a scalar), u64 bits; the buffer */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/abi/cpu_abi.h"
#include "kiln/abi/sve_length.h"

enum { kMaxArguments = 1024 };

struct argument {
  uint64_t offset, size, bytes, bits;
  void* buffer;
};

static int fail(const char* what) {
  fprintf(stderr, "runner: %s\n", what);
  return 2;
}

static int read_case(const char* path, uint64_t header[7], struct argument* arguments) {
  FILE* file = fopen(path, "rb");
  if (!file || fread(header, sizeof(uint64_t), 7, file) != 7 || header[6] > kMaxArguments) return 0;
  for (uint64_t i = 0; i < header[6]; ++i) {
    struct argument* one = &arguments[i];
    if (fread(one, sizeof(uint64_t), 4, file) != 4) return 0;
    if (one->bytes == 0) continue;
    one->buffer = aligned_alloc(64, (one->bytes + 63) / 64 * 64);
    if (!one->buffer || fread(one->buffer, 1, one->bytes, file) != one->bytes) return 0;
  }
  return fclose(file) == 0;
}

int main(int argc, char** argv) {
  uint64_t header[7];
  static struct argument arguments[kMaxArguments];
  if (argc == 2 && strcmp(argv[1], "--sve-bits") == 0) return printf("%d\n", kiln_sve_bits()) < 0;
  if (argc != 4 || !read_case(argv[3], header, arguments)) return fail("bad arguments or case");
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library) return fail(dlerror());
  kiln_entry_fn entry = (kiln_entry_fn)dlsym(library, argv[2]);
  if (!entry) return fail("the kernel has no such entry");

  char* params = calloc(1, header[0] + 8);
  for (uint64_t i = 0; i < header[6]; ++i) {
    const struct argument* one = &arguments[i];
    memcpy(params + one->offset, one->bytes ? (const void*)&one->buffer : (const void*)&one->bits, one->size);
  }
  kiln_ctx context;
  memset(&context, 0, sizeof context);
  context.size = sizeof context;
  context.scratch_bytes = header[1];
  context.scratch = aligned_alloc(64, (header[1] + 127) / 64 * 64);
  context.workspace = aligned_alloc(64, (header[2] + 127) / 64 * 64);
  memset(context.scratch, 0xff, header[1]); /* NaN: nothing may rely on what was there */
  const uint32_t grid[3] = {(uint32_t)header[3], (uint32_t)header[4], (uint32_t)header[5]};
  if (entry(params, grid, 0, header[3] * header[4] * header[5], &context) != 0) return fail("the entry failed");

  FILE* file = fopen(argv[3], "wb");
  if (!file) return fail("cannot write");
  for (uint64_t i = 0; i < header[6]; ++i) fwrite(arguments[i].buffer, 1, arguments[i].bytes, file);
  return fclose(file) == 0 ? 0 : fail("cannot write");
}
