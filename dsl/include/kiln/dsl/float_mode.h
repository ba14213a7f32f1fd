// How a thread computes with floats: rounding, what becomes of subnormals, which exceptions trap. Libraries that are
// built with -ffast-math change it for the whole thread, and callers for themselves; kernels mean one mode alone.
#pragma once

#include <cstdint>

namespace kiln::dsl {

// From here on the thread rounds to nearest even, keeps subnormals, and traps nowhere. The destructor, on the same
// thread, gives back what was before, with the flags of exceptions as they were.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  uint64_t control_ = 0, status_ = 0;
};

}  // namespace kiln::dsl
