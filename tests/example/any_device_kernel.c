/* What the fake drivers run in place of the example's kernel: accumulate(x, y, n), in the layout of its parameters. */
#include <stdint.h>
#include <string.h>

int32_t kiln_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, void* context) {
  const float* x;
  float* y;
  int32_t n;
  (void)grid, (void)first, (void)last, (void)context;
  memcpy(&x, params, sizeof x);
  memcpy(&y, (const char*)params + 8, sizeof y);
  memcpy(&n, (const char*)params + 16, sizeof n);
  for (int32_t i = 0; i < n; ++i) y[i] += x[i];
  return 0;
}
