// What this machine can do at most: the figures that a kernel's speed is a share of.
#pragma once

#include <cstdint>
#include <memory>

namespace kiln::quickstart {

enum class Limit { kCopy, kRead, kFma };

// Columns of a panel of packed weights that suit this machine's CPU (docs/use/kernels.md).
int64_t panel_width();

class Ceilings {
 public:
  explicit Ceilings(bool small);
  ~Ceilings();

  // One reading of a few milliseconds: GB/s of bytes read plus written, of bytes read, or GFLOP/s in registers. Taken
  // between the launches that it is compared with, because neighbours on the machine slow both. `bytes`: all that is
  // read and written, again and again where it is little, so that it stays in the caches that it fits.
  double measure(Limit limit, double bytes = 1e18);

 private:
  struct Arrays;
  std::unique_ptr<Arrays> arrays_;
};

}  // namespace kiln::quickstart
