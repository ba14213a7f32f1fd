/* How a launcher calls a kernel compiled for a CPU. Plain C. `kiln compile --emit so` writes the same declarations,
 * with the kernel's parameters, beside the shared object.
 *
 *   int32_t kiln_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, kiln_ctx* ctx);
 *
 * It runs the programs first … last-1 of the grid, program = x + grid[0]*(y + grid[1]*z), on the calling thread; calls
 * for disjoint ranges may run at the same time. `params` holds the kernel's arguments in order (constexprs are not
 * among them), each at its natural alignment, i1 as one byte, pointers as 8. Zero is success; anything else is an error
 * code. */
#ifndef KILN_CLIENT_CPU_ABI_H
#define KILN_CLIENT_CPU_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller provides for one call. New fields come at the end; `size` says which there are. */
typedef struct kiln_ctx {
  uint64_t size;          /* sizeof(kiln_ctx) of the caller */
  void* scratch;          /* this thread's own, 64-byte aligned; contents are arbitrary */
  uint64_t scratch_bytes; /* at least `scratch_bytes` of the artifact's metadata */
} kiln_ctx;

typedef int32_t (*kiln_entry_fn)(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last,
                                 kiln_ctx* ctx);

#ifdef __cplusplus
}
#endif

#endif
