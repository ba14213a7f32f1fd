// fegetenv and fesetenv do the same, but take as long as a small launch on x86. Both ends are functions of another file
// than what they guard: the compiler moves arithmetic across such instructions where it sees them.
#include "kiln/dsl/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kiln::dsl {

#if defined(__x86_64__)
namespace {

constexpr uint32_t kDefault = 0x1f80, kFlags = 0x3f;  // of MXCSR
constexpr uint16_t kDefaultX87 = 0x37f;               // long double, which the interpreter takes for f64

}  // namespace

FloatMode::FloatMode() : control_(_mm_getcsr()) {
  uint16_t x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  status_ = x87;
  if ((control_ & ~uint64_t{kFlags}) != kDefault) _mm_setcsr(kDefault);
  if (x87 != kDefaultX87) asm volatile("fldcw %0" : : "m"(kDefaultX87));
}

FloatMode::~FloatMode() {
  const auto x87 = static_cast<uint16_t>(status_);
  _mm_setcsr(static_cast<uint32_t>(control_));
  if (x87 != kDefaultX87) asm volatile("fldcw %0" : : "m"(x87));
}

#elif defined(__aarch64__)

FloatMode::FloatMode() {
  asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control_), "=r"(status_));
  if (control_ != 0) asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
}

FloatMode::~FloatMode() {
  if (control_ != 0) asm volatile("msr fpcr, %0" : : "r"(control_));
  asm volatile("msr fpsr, %0" : : "r"(status_));
}

#else
#error "how this processor's float mode is set"
#endif

}  // namespace kiln::dsl
