// The tiles that matrix instructions take and give, as layouts of one warp (wgmma: of four warps). Axes are rows and
// columns of the matrix: A is m×k, B is k×n, the accumulator m×n. Larger tiles are products of these with identities in
// registers and warps; a product with `copies` in warps gives warps the same operand.
//
// A register of these layouts is one element. Those of one hardware register follow each other, the lowest bits first.
#pragma once

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

// NVIDIA mma.sync m16n8k(256/bits): elements of 16 bits (k16), 8 bits (k32) or 32 (tf32, k8).
Layout mma_a(int element_bits);
Layout mma_b(int element_bits);
Layout mma_accumulator();
// The scales of mma.sync m16n8k32 with one for each row and column, of [16, 1] and [8, 1]: those of `scale_vec::1X` by
// the first two threads of four, and by the first one.
Layout mma_a_scales();
Layout mma_b_scales();
// Of mma.sync m16n8k64 with two (`scale_vec::2X`), of [16, 2] and [8, 2].
Layout mma_a_scale_pairs();
Layout mma_b_scale_pairs();
// mma.sync m8n8k4 of f64.
Layout mma_f64_a();
Layout mma_f64_b();
Layout mma_f64_accumulator();
// wgmma m64nN: N a power of two from 8 to 256; A from registers where it is not in shared memory.
Layout wgmma_accumulator(int n);
Layout wgmma_a(int element_bits);
// tcgen05 of 128 rows: a thread has a row, of the accumulators all columns.
Layout tcgen05_rows(int columns);

// AMD MFMA m×m×k of one block, m 16 or 32, 64 lanes.
Layout mfma_a(int m, int k);
Layout mfma_b(int m, int k);
Layout mfma_accumulator(int m);
// 16×16×128 of f8 on gfx950: the lanes of a row have 16 neighbours each of the first 64, then of the others. Scales of
// [rows, blocks].
Layout mfma_f8_a();
Layout mfma_f8_b();
Layout mfma_scales();
Layout mfma_f64_accumulator();  // 16×16×4 of f64 has its rows in another order; A and B are as above

// AMD WMMA 16×16×16. Each half (of 64 lanes: quarter) of gfx11's lanes has all of A and B. Of gfx12 with 32 lanes, the
// operands of 16 bits are laid out otherwise than those of 8.
Layout wmma_gfx11_a(int lanes);
Layout wmma_gfx11_b(int lanes);
Layout wmma_gfx11_accumulator(int lanes);
Layout wmma_gfx12_a(int element_bits);
Layout wmma_gfx12_b(int element_bits);
Layout wmma_gfx12_accumulator();
// AMD WMMA 16×16×k of gfx1250: the two lanes of a row take blocks of 16 bytes in turns. The accumulator is that of
// gfx12.
Layout wmma_gfx1250_a(int element_bits, int k);
Layout wmma_gfx1250_b(int element_bits, int k);
Layout wmma_gfx1250_scales();  // of [rows, blocks]: four of a lane, which two lanes have

}  // namespace kiln::codegen::gpu
