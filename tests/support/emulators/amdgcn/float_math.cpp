// The functions of AMD's floating-point units; see float_math.h.
#include "float_math.h"

namespace kiln::amdgcn_emulator {

double two_over_pi_segment(double x, uint32_t segment) {
  // The bits of 2/π behind the point; the hardware has 1201 of them.
  static constexpr uint64_t kDigits[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                         0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                         0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                         0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                         0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
  constexpr uint32_t kBits = 1201, kSegment = 53, kLargeExponent = 1077, kScaledExponent = 1968;
  const auto exponent = static_cast<uint32_t>(std::bit_cast<uint64_t>(x) >> 52 & 0x7ff);
  const uint32_t first = segment * kSegment + (exponent > kLargeExponent ? exponent - kLargeExponent : 0);
  uint64_t bits = 0;
  for (uint32_t bit = first; bit < first + kSegment; ++bit)
    bits = bits << 1 | (bit < kBits ? kDigits[bit / 64] >> (63 - bit % 64) & 1 : 0);
  const int scale = exponent >= kScaledExponent ? 128 : 0;
  return std::ldexp(static_cast<double>(bits), scale - static_cast<int>(first + kSegment));
}

}  // namespace kiln::amdgcn_emulator
