// Products of small matrices by a warp, computed on the host from the layouts of their fragments.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/layout/layout.h"
#include "kiln/dsl/ops.h"
#include "kiln/dsl/types.h"

namespace kiln::test {

// An instruction: element types, and who holds what.
struct MatrixForm {
  int lanes = 32;
  dsl::ElementType a, b, sum;
  bool is_tf32 = false;  // operands of f32 are rounded
  codegen::gpu::Layout a_layout, b_layout, sum_layout;
  // Of [rows, blocks of 32 along the inner axis] and [columns, blocks], where it multiplies by scales. Of lanes with
  // the same one the instruction reads the first.
  bool is_scaled = false;
  codegen::gpu::Layout a_scales = {}, b_scales = {};
};

// As NVIDIA's mma.sync for warps of 32 lanes, as AMD's MFMA for 64. Null where there is none. Valid for ever: code
// refers to it.
const MatrixForm* find_matrix_form(int lanes, dsl::ElementType a, dsl::ElementType b, dsl::ElementType sum,
                                   dsl::Precision precision);

// As NVIDIA's mma.sync with scales of blocks.
const MatrixForm* find_scaled_form(dsl::ElementType a, dsl::ElementType b);

// To ten bits after the point, ties away from zero.
double round_tf32(double x);

class MatrixProduct {
 public:
  explicit MatrixProduct(const MatrixForm& form);
  // The registers of a lane, each in 8 bytes: those of a, of b, the sums, and a scale of each where there are any.
  void read(int lane, const std::byte* registers);
  void multiply();
  void write(int lane, std::byte* sums) const;

 private:
  const MatrixForm& form_;
  std::vector<uint64_t> a_, b_, sum_;  // bits, row-major
  std::vector<uint64_t> a_scale_, b_scale_;
};

}  // namespace kiln::test
