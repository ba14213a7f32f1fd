// Plain loops of what bench-small-axes measures, as one writes them; small_axes_plain.cpp is compiled by -O3, nbody by
// -Ofast. Arrays do not overlap.
#pragma once

#include <cstdint>

namespace kiln::bench::plain {

// z = x·y of n complex numbers, real and imaginary parts side by side.
void complex_product(const float* x, const float* y, float* z, int n);
// Two numbers of 4 bits a byte, the low one first, each less 8, times its row's scale.
void unpack_int4(const uint8_t* x, const float* scale, float* y, int rows, int cols);
// Of each row of 256 complex numbers its Fourier transform; `w`: e^(-2πi·j/256) of j = 0…127.
void fft256(const float* x, const float* w, float* y, int rows);
// x of L·x = b, L lower triangular of 16×16, b and x of 16×32, `count` times.
void triangular(const float* l, const float* b, float* x, int count);
// h[d, n] = a[t, d]·h[d, n] + x[t, d]·b[t, n]; y[t, d] = Σ c[t, n]·h[d, n], of 16 n; h begins with zeros.
void selective_scan(const float* a, const float* x, const float* b, const float* c, float* y, int steps, int width);
// What n bodies of mass m pull each other by: planes of x, y, z; a vector of accelerations, plane by plane.
void nbody(const float* at, const float* mass, float* pull, int n);

}  // namespace kiln::bench::plain
