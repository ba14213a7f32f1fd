// The float modes that a caller may have set for its thread, as libraries do that are built with -ffast-math.
#pragma once

#include <cfenv>
#include <cstdint>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kiln::test {

struct CallerMode {
  std::string name;
  int rounding = FE_TONEAREST;
  bool flushes = false;  // subnormal results become zero, subnormal operands are taken for zero
};

inline std::vector<CallerMode> caller_modes() {
  return {{"flushing", FE_TONEAREST, true},
          {"upward", FE_UPWARD, false},
          {"downward, flushing", FE_DOWNWARD, true},
          {"toward zero", FE_TOWARDZERO, false}};
}

// Bits of the mode of this thread, the flags of exceptions not among them.
inline uint64_t mode_bits() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;
#else
  uint64_t bits = 0;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
#endif
}

inline void set_mode(const CallerMode& mode) {
  std::fesetround(mode.rounding);
  constexpr uint64_t kFlush = 1 << 15 | 1 << 6, kFlushArm = 1 << 24;
#if defined(__x86_64__)
  static_cast<void>(kFlushArm);
  _mm_setcsr(static_cast<uint32_t>(_mm_getcsr() & ~kFlush) | (mode.flushes ? static_cast<uint32_t>(kFlush) : 0));
#else
  static_cast<void>(kFlush);
  const uint64_t bits = (mode_bits() & ~kFlushArm) | (mode.flushes ? kFlushArm : 0);
  asm volatile("msr fpcr, %0" : : "r"(bits));
#endif
}

// Runs `body` in the mode; gives the bits that it left.
template <class Body>
uint64_t in_mode(const CallerMode& mode, Body body) {
  set_mode(mode);
  body();
  const uint64_t left = mode_bits();
  set_mode({});
  return left;
}

inline uint64_t bits_of_mode(const CallerMode& mode) {
  return in_mode(mode, [] {});
}

}  // namespace kiln::test
