// erf and erfc.
//
// erfc x = e^(-x²)·W(x), where W is smooth and falls like 1/x: (1 + 9/8·x)·W(x) is a polynomial in t = (x - k) / (x +
// k) over all of x ≥ 0 (the form is Shepherd and Laframboise's, 1981, with a factor that makes it flat at 0, where t is
// least exact). erf needs no relative accuracy of erfc and takes a shorter way: e^P(x) = erfc x. Polynomials as in
// exp.cpp.
#include <array>

#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// erf of y in [0, 4] by sixteen pieces 0.26 wide: y = centre + r, a polynomial in r. Centres are moved a little from
// the multiples of the width to where erf is nearly a float. The first piece has its centre at 0 and gives erf y - y,
// so that it is relatively exact there. Errors before rounding are 0.6 ulp up to y = 0.65, 0.1 up to 3.5, 0.4
// behind that; at 4 the last piece is 1 in every bit.
constexpr double kPiece = 0.26;
using Table = std::array<double, 16>;
constexpr Table kCentres = {0x0p+0,       0x1.09538p-2, 0x1.0a268p-1, 0x1.8f6bcp-1, 0x1.0a238p+0, 0x1.4cd5cp+0,
                            0x1.8f42ep+0, 0x1.d1ed8p+0, 0x1.0a4acp+1, 0x1.2b802p+1, 0x1.4cdbcp+1, 0x1.6e156p+1,
                            0x1.8f4f4p+1, 0x1.b0e43p+1, 0x1.d24cp+1,  0x1.f2ccp+1};
constexpr std::array<Table, 6> kCoefficients = {{
    {0x0p+0, 0x1.24d244p-2, 0x1.1353b2p-1, 0x1.75cd8p-1, 0x1.b78d1cp-1, 0x1.de3a04p-1, 0x1.f1f74ep-1, 0x1.fad9fep-1,
     0x1.fe54c4p-1, 0x1.ff854cp-1, 0x1.ffe124p-1, 0x1.fff922p-1, 0x1.fffea8p-1, 0x1.ffffc6p-1, 0x1.fffff8p-1,
     0x1.fffffep-1},
    {0x1.06eba8p-3, 0x1.0e1bb8p+0, 0x1.b8ee64p-1, 0x1.3a5acp-1, 0x1.88159ep-2, 0x1.aa4232p-3, 0x1.95eb18p-4,
     0x1.50b29ep-5, 0x1.e7cc1cp-7, 0x1.35e676p-8, 0x1.5615c6p-10, 0x1.4b9d18p-12, 0x1.18ec38p-14, 0x1.983748p-17,
     0x1.07c038p-19, 0x1.93defcp-23},
    {0x1.30e4d2p-22, -0x1.17f172p-2, -0x1.ca6868p-2, -0x1.ea7702p-2, -0x1.979d1ap-2, -0x1.15199ap-2, -0x1.3c8adcp-3,
     -0x1.32673cp-4, -0x1.fb67dep-6, -0x1.6a8c54p-7, -0x1.bcbfe2p-9, -0x1.da23bp-11, -0x1.b60f1p-13, -0x1.58febep-15,
     -0x1.893f5ap-17, 0x1.e34b16p-18},
    {-0x1.812b58p-2, -0x1.37c65cp-2, -0x1.0e31a6p-3, 0x1.6c11ccp-5, 0x1.2f9b16p-3, 0x1.5243c8p-3, 0x1.05777ap-3,
     0x1.3ba8fep-4, 0x1.373a04p-5, 0x1.00f464p-6, 0x1.650664p-8, 0x1.a86a28p-10, 0x1.b031b8p-12, 0x1.73d34p-14,
     0x1.55c3dp-17, 0x1.804b14p-15},
    {0x1.304496p-12, 0x1.096a56p-3, 0x1.757518p-3, 0x1.225d6cp-3, 0x1.c95266p-5, -0x1.10bfecp-6, -0x1.863162p-5,
     -0x1.71098cp-5, -0x1.dec87ap-6, -0x1.e2bb6ep-7, -0x1.89c5b2p-8, -0x1.0b9c34p-9, -0x1.326344p-11, -0x1.24cf8p-13,
     0x1.9515f2p-13, -0x1.37cd24p-11},
    {0x1.c671bep-4, 0x1.3b3b52p-4, 0x1.d5bd48p-10, -0x1.d4ca88p-5, -0x1.12cc82p-4, -0x1.4c6066p-5, -0x1.153ed4p-7,
     0x1.3b7c42p-7, 0x1.a4652cp-7, 0x1.273aaep-7, 0x1.2c704ap-8, 0x1.e0eb92p-10, 0x1.39cf12p-11, 0x1.554366p-13,
     0x1.b2d5acp-12, -0x1.d082b8p-9},
}};

Value* erf_by_table(MathBuilder& m, Value* y) {
  // The shift leaves the piece's number in the low bits.
  Value* shift = m.constant(0x1.8p23);
  Value* piece = m.bits(m.fma(y, m.constant(1 / kPiece), shift));
  Value* r = m.sub(y, m.avx512_lookup(kCentres, piece));
  Value* q = m.avx512_lookup(kCoefficients.back(), piece);
  for (size_t i = kCoefficients.size() - 2; i > 0; --i) q = m.fma(q, r, m.avx512_lookup(kCoefficients[i], piece));
  Value* is_first = m.b.CreateICmpEQ(piece, m.bits(shift));
  return m.fma(q, r, m.select(is_first, y, m.avx512_lookup(kCoefficients[0], piece)));
}

// erfc of y ≥ 0; y is clamped so far out that the result is zero.
Value* positive_erfc(MathBuilder& m, Value* y) {
  // -y² in two parts: the exponential makes an absolute error of its argument a relative one of the result.
  const Pair square = m.two_product(y, y);
  const ScaledExp e = scaled_exp(m, m.neg(square.high), m.neg(square.low));
  Value* k = m.constant(3.0, 4.0);
  Value* divisor = m.fma(y, m.constant(1.125), m.constant(1.0));
  Value* t = m.quotient(m.sub(y, k), m.add(y, k));
  // On y ≤ 10.1: f32 2^-25.8; on y ≤ 27.3: f64 2^-54.9.
  Value* p =
      m.polynomial(t,
                   {0x1.90f66cp-1, -0x1.c08a74p-3, 0x1.4a894ep-4, 0x1.db2856p-8, -0x1.24b65cp-5, 0x1.c69cc4p-6,
                    -0x1.79ff0ep-7, 0x1.c73e62p-10, 0x1.cee56p-11, -0x1.97e904p-12, -0x1.d62604p-14},
                   {0x1.81ca5c6ac35d4p-1,   -0x1.88f7ef80ff62cp-3,  0x1.ab6160c8dc2f9p-4,   -0x1.12e8a665fa935p-5,
                    -0x1.2c41863339ac1p-7,  0x1.9b7c27f740848p-6,   -0x1.82f2f299e903dp-6,  0x1.f4f0daa676c6ep-7,
                    -0x1.e0b287d61e4e6p-8,  0x1.452c04b9471d2p-9,   -0x1.c8efc32f614bep-12, -0x1.452b7a16abeeap-14,
                    0x1.39fa6d4d91b9p-14,   -0x1.e878ddf0692fcp-17, -0x1.517c444204e09p-18, 0x1.970f212aae4fbp-19,
                    0x1.a4f4efe0904b9p-25,  -0x1.c38cdbc975ceep-22, 0x1.809b2307cc141p-25,  0x1.c04f110fdfd21p-25,
                    -0x1.b50148cb41ba5p-28, -0x1.4835d95e3011cp-28});
  if (m.is_f64() || m.has_fma()) return m.scale(m.quotient(m.mul(e.power, p), divisor), e.n);
  // The roundings so far take up most of f32's bound; these three would be too many.
  auto& b = m.b;
  MathBuilder wide(b, m.type()->getWithNewType(b.getDoubleTy()), m.options());
  auto widen = [&](Value* v) { return b.CreateFPExt(v, wide.type()); };
  Value* wide_divisor = wide.fma(widen(y), wide.constant(1.125), wide.constant(1.0));
  Value* w = b.CreateFDiv(wide.mul(widen(e.power), widen(p)), wide_divisor);
  return m.scale(b.CreateFPTrunc(w, m.type()), e.n);
}

}  // namespace

Value* emit_erfc(MathBuilder& m, Value* x) {
  Value* y = m.at_most(m.abs(x), m.constant(10.1, 27.3));
  Value* far = positive_erfc(m, y);
  return m.select(m.less(x, m.constant(0)), m.sub(m.constant(2.0), far), far);
}

Value* emit_erf(MathBuilder& m, Value* x) {
  Value* magnitude = m.abs(x);
  if (m.fills_avx512() && !m.is_f64()) {
    return m.copysign(erf_by_table(m, m.at_most(magnitude, m.constant(4.0))), x);
  }
  Value* z = m.mul(x, x);
  // erf x = x + x·E(x²) for |x| < 1: f32 2^-30.1, f64 2^-56.
  Value* near =
      m.polynomial(z,
                   {0x1.06eba8p-3, -0x1.812744p-2, 0x1.ce2ea2p-4, -0x1.b82232p-6, 0x1.55e0eep-8, -0x1.b9d556p-11,
                    0x1.c8c8bp-14, -0x1.2307bcp-17},
                   {0x1.06eba8214db68p-3, -0x1.812746b0379b1p-2, 0x1.ce2f21a04082ep-4, -0x1.b82ce311eba5fp-6,
                    0x1.565bccf79917cp-8, -0x1.c02db00a49011p-11, 0x1.f9a2b66c14b7ep-14, -0x1.f4ca130b7962ep-17,
                    0x1.b97dc7c960059p-20, -0x1.5bfb9f6c2cfdcp-23, 0x1.d6d111fa23439p-27, -0x1.aadfeba13b673p-31});
  // 1 - e^P(y - c) up to where erf is 1 in every bit. On y ≥ 1, absolute errors: f32 2^-26, f64 2^-54.6.
  Value* y = m.sub(m.at_most(magnitude, m.constant(3.95, 5.95)), m.constant(0.0, 2.0));
  Value* log_erfc = m.polynomial(
      y,
      {0x1.59b11ep-12, -0x1.2159a4p+0, -0x1.43752ap-1, -0x1.c32ebap-4, 0x1.b195f8p-6, -0x1.38f5c4p-8, 0x1.3abf1cp-11,
       -0x1.86066ap-15, 0x1.bda53cp-20},
      {-0x1.575b329b1f51p+2, -0x1.1ac3258a8dbc6p+2, -0x1.d8f5dece92b58p-1, -0x1.0dc3b5fc1f36dp-6, 0x1.d406b36de5a14p-9,
       -0x1.7ffcfa15c3e27p-11, 0x1.1bc3ac5f17e9cp-13, -0x1.5b65ec8d8ed5bp-16, 0x1.05fe01eeeb23ap-19,
       0x1.b5aa3d216405ap-23, -0x1.733a67026ce13p-23, 0x1.ef4fe27b8f48fp-25, -0x1.e938bf94b8311p-27,
       0x1.68d513c75fa45p-29, -0x1.4dec68217ec6fp-33, -0x1.7838fc340e2b3p-34, 0x1.378f5a1e5754cp-36});
  Value* far = nullptr;
  if (m.has_estimates()) {
    constexpr double kLog2E = 0x1.71547652b82fep+0;
    far = m.sub(m.constant(1.0), m.estimate(Estimate::kExp2, m.mul(log_erfc, m.constant(kLog2E))));
  } else {
    const ScaledExp e = scaled_exp(m, log_erfc);
    far = m.fma(m.neg(e.power), m.power_of_two(e.n.bits), m.constant(1.0));
  }
  return m.select(m.b.CreateFCmpULT(magnitude, m.constant(1.0)), m.fma(near, x, x), m.copysign(far, x));
}

}  // namespace kiln::codegen
