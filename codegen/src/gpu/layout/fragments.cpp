// Tables of steps: each hands the next bits of rows or columns to registers, lanes or warps.
//
// Sources. NVIDIA: the ISA manual, "Matrix Fragments for mma.m16n8k16 with floating point type" and its siblings for
// k8, k32 and m8n8k4 of f64, "Selecting the Scale Factors" of the
// block scaled mma, "Register Fragments and Shared Memory Matrix Layouts" of wgmma, and "Tensor Memory" of tcgen05.
// AMD: the formulas of AMD's matrix instruction calculator (CDNA1-3, RDNA3, RDNA4), the same as in the ISA manuals; of
// CDNA 4's f8 and scales the tables in AMD's Composable Kernel (test/mx_mfma_op); of gfx1250 Triton's layouts
// (LinearLayoutConversions.cpp) and AMD's emulator rocjitsu (mma/layout.h in ROCm/rocm-systems), which agree.
#include "gpu/layout/fragments.h"

#include <bit>
#include <cassert>

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

constexpr Dim kReg = Dim::kRegister, kLane = Dim::kLane, kWarp = Dim::kWarp;
constexpr int kRow = 0, kColumn = 1;

int log2_of(int number) {
  assert(std::has_single_bit(static_cast<unsigned>(number)));
  return std::countr_zero(static_cast<unsigned>(number));
}

// An operand B has the layout of an A of n rows, transposed.
Layout transposed(const Layout& layout) { return transpose(layout, {1, 0}); }

}  // namespace

Layout mma_a(int element_bits) {
  const int per_register = 32 / element_bits;
  return from_steps({16, 8 * per_register}, {{kReg, kColumn, log2_of(per_register)},
                                             {kLane, kColumn, 2},
                                             {kLane, kRow, 3},
                                             {kReg, kRow, 1},
                                             {kReg, kColumn, 1}});
}

Layout mma_b(int element_bits) {
  const int per_register = 32 / element_bits;
  return from_steps({8 * per_register, 8},
                    {{kReg, kRow, log2_of(per_register)}, {kLane, kRow, 2}, {kLane, kColumn, 3}, {kReg, kRow, 1}});
}

Layout mma_accumulator() {
  return from_steps({16, 8}, {{kReg, kColumn, 1}, {kLane, kColumn, 2}, {kLane, kRow, 3}, {kReg, kRow, 1}});
}

Layout mma_a_scales() {
  Layout out({16, 1});
  out.add(kLane, Columns{out.element({8, 0}), 0, out.element({1, 0}), out.element({2, 0}), out.element({4, 0})});
  return out;
}

Layout mma_a_scale_pairs() { return product(mma_a_scales(), identity(2, kColumn, kReg, 2)); }
Layout mma_b_scale_pairs() { return product(mma_b_scales(), identity(2, kColumn, kReg, 2)); }

Layout mma_b_scales() { return from_steps({8, 1}, {{kLane, kNoAxis, 2}, {kLane, kRow, 3}}); }

Layout mma_f64_a() { return from_steps({8, 4}, {{kLane, kColumn, 2}, {kLane, kRow, 3}}); }
Layout mma_f64_b() { return transposed(mma_f64_a()); }
Layout mma_f64_accumulator() { return from_steps({8, 8}, {{kReg, kColumn, 1}, {kLane, kColumn, 2}, {kLane, kRow, 3}}); }

Layout wgmma_accumulator(int n) {
  return from_steps({64, n}, {{kReg, kColumn, 1},
                              {kLane, kColumn, 2},
                              {kLane, kRow, 3},
                              {kReg, kRow, 1},
                              {kReg, kColumn, log2_of(n) - 3},
                              {kWarp, kRow, 2}});
}

// Each warp has the fragment of an mma of its sixteen rows.
Layout wgmma_a(int element_bits) { return product(mma_a(element_bits), identity(2, kRow, kWarp, 4)); }

Layout tcgen05_rows(int columns) {
  return from_steps({128, columns}, {{kReg, kColumn, log2_of(columns)}, {kLane, kRow, 5}, {kWarp, kRow, 2}});
}

Layout mfma_a(int m, int k) {
  const int per_lane = m * k / 64;
  return from_steps({m, k},
                    {{kReg, kColumn, log2_of(per_lane)}, {kLane, kRow, log2_of(m)}, {kLane, kColumn, 6 - log2_of(m)}});
}

Layout mfma_f8_a() {
  return from_steps({16, 128}, {{kReg, kColumn, 4}, {kLane, kRow, 4}, {kLane, kColumn, 2}, {kReg, kColumn, 1}});
}

Layout mfma_f8_b() { return transposed(mfma_f8_a()); }

Layout mfma_scales() { return from_steps({16, 4}, {{kLane, kRow, 4}, {kLane, kColumn, 2}}); }

Layout mfma_b(int m, int k) { return transposed(mfma_a(m, k)); }

Layout mfma_accumulator(int m) {
  return from_steps(
      {m, m},
      {{kLane, kColumn, log2_of(m)}, {kReg, kRow, 2}, {kLane, kRow, 6 - log2_of(m)}, {kReg, kRow, 2 * log2_of(m) - 8}});
}

Layout mfma_f64_accumulator() { return from_steps({16, 16}, {{kLane, kColumn, 4}, {kLane, kRow, 2}, {kReg, kRow, 2}}); }

Layout wmma_gfx11_a(int lanes) {
  return from_steps({16, 16}, {{kReg, kColumn, 4}, {kLane, kRow, 4}, {kLane, kNoAxis, log2_of(lanes) - 4}});
}

Layout wmma_gfx11_b(int lanes) { return transposed(wmma_gfx11_a(lanes)); }

Layout wmma_gfx11_accumulator(int lanes) {
  const int halves = log2_of(lanes) - 4;
  return from_steps({16, 16}, {{kLane, kColumn, 4}, {kLane, kRow, halves}, {kReg, kRow, 4 - halves}});
}

Layout wmma_gfx12_a(int element_bits) {
  const int together = element_bits == 16 ? 2 : 3;
  return from_steps({16, 16},
                    {{kReg, kColumn, together}, {kLane, kRow, 4}, {kLane, kColumn, 1}, {kReg, kColumn, 3 - together}});
}

Layout wmma_gfx12_b(int element_bits) { return transposed(wmma_gfx12_a(element_bits)); }

Layout wmma_gfx12_accumulator() {
  return from_steps({16, 16}, {{kLane, kColumn, 4}, {kReg, kRow, 3}, {kLane, kRow, 1}});
}

Layout wmma_gfx1250_a(int element_bits, int k) {
  const int together = log2_of(128 / element_bits);
  return from_steps(
      {16, k},
      {{kReg, kColumn, together}, {kLane, kRow, 4}, {kLane, kColumn, 1}, {kReg, kColumn, log2_of(k) - 1 - together}});
}

Layout wmma_gfx1250_scales() {
  return from_steps({16, 4}, {{kReg, kColumn, 2}, {kLane, kRow, 4}, {kLane, kNoAxis, 1}});
}

Layout wmma_gfx1250_b(int element_bits, int k) { return transposed(wmma_gfx1250_a(element_bits, k)); }

}  // namespace kiln::codegen::gpu
