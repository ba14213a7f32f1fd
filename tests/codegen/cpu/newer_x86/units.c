/* What units of newer x86-64 processors do, in C: tiles of AMX, and AVX10.2's products of bytes of one sign. The test
 * calls these in place of LLVM's intrinsics of the same names. (Intel's Architecture Instruction Set Extensions
 * Programming Reference.) Where a tile has rows or columns beyond its configuration, or none is in force, it aborts. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kTiles = 8, kRows = 16, kRowBytes = 64 };

static _Thread_local struct {
  int configured;
  uint8_t rows[kTiles];
  uint16_t row_bytes[kTiles];
  uint8_t data[kTiles][kRows][kRowBytes];
} g;

static void need(int condition) {
  if (!condition) abort();
}

void kiln_unit_ldtilecfg(const uint8_t* bytes) {
  memset(&g, 0, sizeof g);
  need(bytes[0] == 1);
  for (int tile = 0; tile < kTiles; ++tile) {
    g.row_bytes[tile] = (uint16_t)(bytes[16 + 2 * tile] | bytes[17 + 2 * tile] << 8);
    g.rows[tile] = bytes[48 + tile];
    need(g.rows[tile] <= kRows && g.row_bytes[tile] <= kRowBytes && !g.rows[tile] == !g.row_bytes[tile]);
  }
  g.configured = 1;
}
void kiln_unit_tilerelease(void) { memset(&g, 0, sizeof g); }

static void check(uint8_t tile) { need(g.configured && tile < kTiles && g.rows[tile] > 0); }

void kiln_unit_tilezero(uint8_t tile) {
  check(tile);
  memset(g.data[tile], 0, sizeof g.data[tile]);
}
void kiln_unit_tileloadd64(uint8_t tile, const char* from, int64_t stride) {
  kiln_unit_tilezero(tile);
  for (int row = 0; row < g.rows[tile]; ++row) memcpy(g.data[tile][row], from + row * stride, g.row_bytes[tile]);
}
void kiln_unit_tilestored64(uint8_t tile, char* to, int64_t stride) {
  check(tile);
  for (int row = 0; row < g.rows[tile]; ++row) memcpy(to + row * stride, g.data[tile][row], g.row_bytes[tile]);
}

/* A small float of so many bits of exponent and mantissa. `has_infinities`: else all of the highest exponent but the
 * last are numbers, as of e4m3. */
static double small_float(uint32_t bits, int exponent_bits, int mantissa_bits, int has_infinities) {
  const int bias = (1 << (exponent_bits - 1)) - 1, highest = (1 << exponent_bits) - 1;
  const int exponent = (int)(bits >> mantissa_bits) & highest, mantissa = (int)bits & ((1 << mantissa_bits) - 1);
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (exponent == highest && has_infinities) return mantissa ? NAN : sign * INFINITY;
  if (exponent == highest && mantissa == (1 << mantissa_bits) - 1) return NAN;
  if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * ldexp(mantissa | 1 << mantissa_bits, exponent - bias - mantissa_bits);
}

enum kind { kHf8, kBf8, kF16, kBf16, kTf32, kSigned, kUnsigned };
static const int kBytesOf[] = {1, 1, 2, 2, 4, 1, 1};

static double element(enum kind kind, const uint8_t* row, int index) {
  const uint8_t* at = row + index * kBytesOf[kind];
  switch (kind) {
    case kHf8:
      return small_float(*at, 4, 3, 0);
    case kBf8:
      return small_float(*at, 5, 2, 1);
    case kF16:
      return small_float((uint32_t)(at[0] | at[1] << 8), 5, 10, 1);
    case kBf16:
      return small_float((uint32_t)(at[0] | at[1] << 8), 8, 7, 1);
    case kTf32: { /* to nearest even at ten bits */
      uint32_t bits;
      memcpy(&bits, at, 4);
      if ((bits & 0x7f800000u) == 0x7f800000u) return bits & 0x7fffffu ? NAN : bits >> 31 ? -INFINITY : INFINITY;
      bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
      return small_float(bits >> 13, 8, 10, 1);
    }
    case kSigned:
      return (int8_t)*at;
    case kUnsigned:
      return *at;
  }
  return 0;
}

/* D[m][n] += Σ over units k of A's columns, and the numbers i of a unit, of A[m][k][i] · B[k][n][i]. Floats are rounded
 * once a unit. */
static void multiply(uint8_t d, uint8_t a, uint8_t b, enum kind of_a, enum kind of_b) {
  check(d), check(a), check(b);
  need(g.rows[d] == g.rows[a] && g.row_bytes[a] / 4 == g.rows[b] && g.row_bytes[d] == g.row_bytes[b]);
  const int group = 4 / kBytesOf[of_a];
  for (int m = 0; m < g.rows[d]; ++m) {
    for (int n = 0; n < g.row_bytes[d] / 4; ++n) {
      float sum;
      int32_t whole;
      memcpy(&sum, g.data[d][m] + 4 * n, 4);
      memcpy(&whole, g.data[d][m] + 4 * n, 4);
      for (int k = 0; k < g.rows[b]; ++k) {
        double unit = 0;
        for (int i = 0; i < group; ++i)
          unit += element(of_a, g.data[a][m], k * group + i) * element(of_b, g.data[b][k], n * group + i);
        sum = (float)(sum + unit);
        whole = (int32_t)((uint32_t)whole + (uint32_t)(int32_t)unit);
      }
      if (of_a < kSigned) memcpy(g.data[d][m] + 4 * n, &sum, 4);
      if (of_a >= kSigned) memcpy(g.data[d][m] + 4 * n, &whole, 4);
    }
  }
}

void kiln_unit_tdpbf16ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kBf16, kBf16); }
void kiln_unit_tdpfp16ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kF16, kF16); }
void kiln_unit_tdphf8ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kHf8, kHf8); }
void kiln_unit_tdpbf8ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kBf8, kBf8); }
void kiln_unit_tdphbf8ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kHf8, kBf8); }
void kiln_unit_tdpbhf8ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kBf8, kHf8); }
void kiln_unit_tmmultf32ps(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kTf32, kTf32); }
void kiln_unit_tdpbssd(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kSigned, kSigned); }
void kiln_unit_tdpbsud(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kSigned, kUnsigned); }
void kiln_unit_tdpbusd(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kUnsigned, kSigned); }
void kiln_unit_tdpbuud(uint8_t d, uint8_t a, uint8_t b) { multiply(d, a, b, kUnsigned, kUnsigned); }

/* sums[i] += Σ a[4i + j] · b[4i + j] */
static void add_quads(int32_t* sums, const uint8_t* a, const uint8_t* b, enum kind of_a, enum kind of_b, int lanes) {
  for (int i = 0; i < 4 * lanes; ++i) {
    const int32_t product = (int32_t)(element(of_a, a, i) * element(of_b, b, i));
    sums[i / 4] = (int32_t)((uint32_t)sums[i / 4] + (uint32_t)product);
  }
}
void kiln_unit_vpdpbssd(int32_t* sums, const uint8_t* a, const uint8_t* b, int32_t lanes) {
  add_quads(sums, a, b, kSigned, kSigned, lanes);
}
void kiln_unit_vpdpbuud(int32_t* sums, const uint8_t* a, const uint8_t* b, int32_t lanes) {
  add_quads(sums, a, b, kUnsigned, kUnsigned, lanes);
}
void kiln_unit_vpdpbusd(int32_t* sums, const uint8_t* a, const uint8_t* b, int32_t lanes) {
  add_quads(sums, a, b, kUnsigned, kSigned, lanes);
}
