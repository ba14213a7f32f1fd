// What this machine can do at most, measured now: the figures that a kernel's speed is a share of.
#pragma once

namespace kiln::quickstart {

struct Ceilings {
  double copy_gbs = 0;  // bytes read plus bytes written a second, arrays far larger than the caches
  double read_gbs = 0;
  double fma_gflops = 0;  // f32, registers only
  int threads = 1;
};

Ceilings measure_ceilings(bool small);

}  // namespace kiln::quickstart
