#include <cmath>

#include "small_axes_plain.h"

namespace kiln::bench::plain {

void nbody(const float* __restrict at, const float* __restrict mass, float* __restrict pull, int n) {
  for (int i = 0; i < n; ++i) {
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < n; ++j) {
      const float dx = at[j] - at[i], dy = at[n + j] - at[n + i], dz = at[2 * n + j] - at[2 * n + i];
      const float inverse = 1 / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-3f);
      const float f = mass[j] * inverse * inverse * inverse;
      x += f * dx;
      y += f * dy;
      z += f * dz;
    }
    pull[i] = x;
    pull[n + i] = y;
    pull[2 * n + i] = z;
  }
}

}  // namespace kiln::bench::plain
