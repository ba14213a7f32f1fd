#include "small_axes_plain.h"

#include <cstddef>
#include <vector>

namespace kiln::bench::plain {

void complex_product(const float* __restrict x, const float* __restrict y, float* __restrict z, int n) {
  for (int i = 0; i < n; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], c = y[2 * i], d = y[2 * i + 1];
    z[2 * i] = a * c - b * d;
    z[2 * i + 1] = a * d + b * c;
  }
}

void unpack_int4(const uint8_t* __restrict x, const float* __restrict scale, float* __restrict y, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    const float s = scale[r];
    for (int i = 0; i < cols / 2; ++i) {
      const int pair = x[r * (cols / 2) + i];
      y[r * cols + 2 * i] = static_cast<float>((pair & 15) - 8) * s;
      y[r * cols + 2 * i + 1] = static_cast<float>((pair >> 4) - 8) * s;
    }
  }
}

void fft256(const float* __restrict x, const float* __restrict w, float* __restrict y, int rows) {
  constexpr int kPoints = 256;
  float real[2][kPoints], imaginary[2][kPoints];
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < kPoints; ++i) {
      real[0][i] = x[(r * kPoints + i) * 2];
      imaginary[0][i] = x[(r * kPoints + i) * 2 + 1];
    }
    int from = 0;
    for (int l = kPoints / 2, m = 1; l >= 1; l /= 2, m *= 2, from = 1 - from) {
      const float* __restrict re = real[from];
      const float* __restrict im = imaginary[from];
      float* __restrict to_re = real[1 - from];
      float* __restrict to_im = imaginary[1 - from];
      for (int j = 0; j < l; ++j) {
        const float wr = w[2 * j * m], wi = w[2 * j * m + 1];
        for (int k = 0; k < m; ++k) {
          const int a = k + j * m, b = a + kPoints / 2, to = k + 2 * j * m;
          const float dr = re[a] - re[b], di = im[a] - im[b];
          to_re[to] = re[a] + re[b];
          to_im[to] = im[a] + im[b];
          to_re[to + m] = dr * wr - di * wi;
          to_im[to + m] = dr * wi + di * wr;
        }
      }
    }
    for (int i = 0; i < kPoints; ++i) {
      y[(r * kPoints + i) * 2] = real[from][i];
      y[(r * kPoints + i) * 2 + 1] = imaginary[from][i];
    }
  }
}

void triangular(const float* __restrict l, const float* __restrict b, float* __restrict x, int count) {
  constexpr int kRows = 16, kCols = 32;
  for (int s = 0; s < count; ++s, l += kRows * kRows, b += kRows * kCols, x += kRows * kCols) {
    for (int i = 0; i < kRows; ++i) {
      float sum[kCols];
      for (int j = 0; j < kCols; ++j) sum[j] = b[i * kCols + j];
      for (int k = 0; k < i; ++k) {
        for (int j = 0; j < kCols; ++j) sum[j] -= l[i * kRows + k] * x[k * kCols + j];
      }
      const float inverse = 1 / l[i * kRows + i];
      for (int j = 0; j < kCols; ++j) x[i * kCols + j] = sum[j] * inverse;
    }
  }
}

void selective_scan(const float* __restrict a, const float* __restrict x, const float* __restrict b,
                    const float* __restrict c, float* __restrict y, int steps, int width) {
  constexpr int kStates = 16;
  std::vector<float> states(static_cast<size_t>(width) * kStates);
  float* __restrict h = states.data();
  for (int t = 0; t < steps; ++t) {
    for (int d = 0; d < width; ++d) {
      float sum = 0;
      for (int n = 0; n < kStates; ++n) {
        float& state = h[d * kStates + n];
        state = a[t * width + d] * state + x[t * width + d] * b[t * kStates + n];
        sum += c[t * kStates + n] * state;
      }
      y[t * width + d] = sum;
    }
  }
}

}  // namespace kiln::bench::plain
