// The list of the kernel library, for the command that writes dsl/examples and for the tests.
#include "kiln/dsl/kernels.h"

#include <array>

namespace kiln::dsl {

std::span<const LibraryKernel> library_kernels() {
  static const std::array<LibraryKernel, 8> list = {{
      {"bias_gelu", &kernels::bias_gelu().ir()},
      {"layer_norm", &kernels::layer_norm().ir()},
      {"matmul", &kernels::matmul().ir()},
      {"matmul_bias_act", &kernels::matmul_bias_act().ir()},
      {"row_sum", &kernels::row_sum().ir()},
      {"sin2_cos2", &kernels::sin2_cos2().ir()},
      {"softmax", &kernels::softmax().ir()},
      {"vector_add", &kernels::vector_add().ir()},
  }};
  return list;
}

}  // namespace kiln::dsl
