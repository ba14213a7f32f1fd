/* What a compiled kernel looks like to the runtime: y[p] += 1 + scale for each program p, with the scratch checked. */
#include <stdint.h>

#include "kiln/abi/cpu_abi.h"

struct params {
  float* y;
  int32_t fail_at; /* the program that fails, with code 7 */
  float scale;
  uint64_t scratch_bytes;
};

int32_t kiln_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, kiln_ctx* ctx) {
  const struct params* p = params;
  if (last > (uint64_t)grid[0] * grid[1] * grid[2] || ctx->size < sizeof(kiln_ctx)) return 1;
  if (ctx->scratch_bytes < p->scratch_bytes || (uintptr_t)ctx->scratch % 64 != 0) return 2;
  for (uint64_t i = 0; i < p->scratch_bytes; ++i) ((volatile char*)ctx->scratch)[i] = 1;
  for (uint64_t program = first; program < last; ++program) {
    if ((int64_t)program == p->fail_at) return 7;
    p->y[program] += 1 + p->scale;
  }
  return 0;
}

/* Each program prints its number twice, adds one to the workspace's element that is its own, and the one at `fail_at`
 * fails with a record. */
int32_t reporting_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, kiln_ctx* ctx) {
  const struct params* p = params;
  (void)grid;
  for (uint64_t program = first; program < last; ++program) {
    const float value = (float)program;
    const void* values[1] = {&value};
    if (ctx->print) ctx->print(ctx->print_data, 0, program, values);
    if (ctx->print) ctx->print(ctx->print_data, 1, program, values);
    if (ctx->workspace) ++((int32_t*)ctx->workspace)[program];
    if ((int64_t)program != p->fail_at) continue;
    ctx->failure.check = 3;
    ctx->failure.program = program;
    ctx->failure.index = ctx->extents ? ctx->extents[0] : -7;
    return KILN_OUT_OF_BOUNDS;
  }
  return 0;
}

int kiln_load_count = 0;
int32_t other_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, kiln_ctx* ctx) {
  (void)params, (void)grid, (void)first, (void)last, (void)ctx;
  return ++kiln_load_count; /* each load has variables of its own */
}
