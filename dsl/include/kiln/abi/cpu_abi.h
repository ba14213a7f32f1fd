/* How a launcher calls a kernel compiled for a CPU: what the compiler writes and every caller reads. Plain C.
 * `kiln compile --emit so` writes this text, with the kernel's parameters, beside the shared object.
 *
 *   int32_t kiln_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, kiln_ctx* ctx);
 *
 * It runs the programs first … last-1 of the grid, program = x + grid[0]*(y + grid[1]*z), on the calling thread; calls
 * for disjoint ranges may run at the same time. `params` holds the kernel's arguments in order (constexprs are not
 * among them), each at its natural alignment, i1 as one byte, pointers as 8. Zero is success; anything else is an error
 * code. A kernel with a plan has several entries of this type: docs/reference/artifact.md. */
#ifndef KILN_CPU_ABI_H
#define KILN_CPU_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an entry returns. */
enum {
  KILN_OK = 0,
  KILN_ASSERT_FAILED = 1,    /* kernels with the option debug; `failure` says where */
  KILN_OUT_OF_BOUNDS = 2,    /* kernels with the option check_bounds; `failure` says where */
  KILN_SCRATCH_TOO_SMALL = 3 /* than the kernel's scratch_bytes; nothing was done */
};

#define KILN_NO_PARAMETER UINT32_MAX

/* Why an entry returned KILN_ASSERT_FAILED or KILN_OUT_OF_BOUNDS. */
typedef struct kiln_failure {
  uint32_t check;     /* number in `checks` of the artifact's metadata */
  uint32_t parameter; /* whose buffer the index is outside of, or KILN_NO_PARAMETER where that is not known */
  uint64_t program;   /* x + grid[0]*(y + grid[1]*z) */
  uint64_t lane;      /* the first element of the op's tile for which it holds, in row-major order */
  int64_t index;      /* the index that is out of bounds */
} kiln_failure;

/* Takes what a `print` gives: its number in `prints` of the metadata, the program, and one dense row-major array for
 * each of its values (i1 as bytes). Called on the thread that runs the program. */
typedef void (*kiln_print_fn)(void* data, uint32_t print, uint64_t program, const void* const* values);

/* What the caller provides for one call. New fields come at the end; `size` says which there are, and those that are
 * missing count as zero. */
typedef struct kiln_ctx {
  uint64_t size;          /* sizeof(kiln_ctx) of the caller */
  void* scratch;          /* this thread's own, 64-byte aligned; contents are arbitrary */
  uint64_t scratch_bytes; /* at least `scratch_bytes` of the artifact's metadata */
  void* workspace; /* where the metadata has a plan: one for all entries and threads of a launch, 64-byte aligned */
  const int64_t*
      extents;         /* check_bounds: elements behind each pointer parameter, below 0 where unknown; NULL: all are */
  kiln_print_fn print; /* NULL: `print` does nothing */
  void* print_data;
  kiln_failure failure; /* out */
} kiln_ctx;

typedef int32_t (*kiln_entry_fn)(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last,
                                 kiln_ctx* ctx);

#ifdef __cplusplus
}

/* Compiled code has these offsets in it: they stay. */
static_assert(offsetof(kiln_failure, parameter) == 4 && offsetof(kiln_failure, program) == 8 &&
                  offsetof(kiln_failure, lane) == 16 && offsetof(kiln_failure, index) == 24 &&
                  sizeof(kiln_failure) == 32,
              "kiln_failure");
static_assert(offsetof(kiln_ctx, size) == 0 && offsetof(kiln_ctx, scratch) == 8 &&
                  offsetof(kiln_ctx, scratch_bytes) == 16 && offsetof(kiln_ctx, workspace) == 24 &&
                  offsetof(kiln_ctx, extents) == 32 && offsetof(kiln_ctx, print) == 40 &&
                  offsetof(kiln_ctx, print_data) == 48 && offsetof(kiln_ctx, failure) == 56 && sizeof(kiln_ctx) == 88,
              "kiln_ctx");
#endif

#endif
