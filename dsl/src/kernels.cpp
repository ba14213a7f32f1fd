// The list of the kernel library, for the command that writes dsl/examples and for the tests.
#include "kiln/dsl/kernels.h"

namespace kiln::dsl {

std::span<const LibraryKernel> library_kernels() {
  static const LibraryKernel list[] = {
      {"adamw", &kernels::adamw().ir()},
      {"argmax", &kernels::argmax().ir()},
      {"attention", &kernels::attention().ir()},
      {"attention_backward_keys", &kernels::attention_backward_keys().ir()},
      {"attention_backward_queries", &kernels::attention_backward_queries().ir()},
      {"attention_combine", &kernels::attention_combine().ir()},
      {"attention_decode", &kernels::attention_decode().ir()},
      {"attention_delta", &kernels::attention_delta().ir()},
      {"attention_f8", &kernels::attention_f8().ir()},
      {"attention_with_lse", &kernels::attention_with_lse().ir()},
      {"batched_matmul", &kernels::batched_matmul().ir()},
      {"bias_gelu", &kernels::bias_gelu().ir()},
      {"class_balanced_sampler", &kernels::class_balanced_sampler().ir()},
      {"column_sum", &kernels::column_sum().ir()},
      {"conv2d", &kernels::conv2d().ir()},
      {"conv2d_depthwise", &kernels::conv2d_depthwise().ir()},
      {"conv2d_grouped", &kernels::conv2d_grouped().ir()},
      {"cross_entropy", &kernels::cross_entropy().ir()},
      {"cross_entropy_backward", &kernels::cross_entropy_backward().ir()},
      {"cross_entropy_mean", &kernels::cross_entropy_mean().ir()},
      {"cumsum_columns", &kernels::cumsum_columns().ir()},
      {"cumsum_rows", &kernels::cumsum_rows().ir()},
      {"dlrm_interaction", &kernels::dlrm_interaction().ir()},
      {"dropout", &kernels::dropout().ir()},
      {"embedding", &kernels::embedding().ir()},
      {"embedding_backward", &kernels::embedding_backward().ir()},
      {"embedding_backward_ordered", &kernels::embedding_backward_ordered().ir()},
      {"gelu", &kernels::gelu().ir()},
      {"grouped_matmul", &kernels::grouped_matmul().ir()},
      {"histogram", &kernels::histogram().ir()},
      {"layer_norm", &kernels::layer_norm().ir()},
      {"layer_norm_backward", &kernels::layer_norm_backward().ir()},
      {"log_softmax", &kernels::log_softmax().ir()},
      {"matmul", &kernels::matmul<lang::bf16>().ir()},
      {"matmul_bias_act", &kernels::matmul_bias_act().ir()},
      {"matmul_bias_relu", &kernels::matmul_bias_relu().ir()},
      {"matmul_f32", &kernels::matmul().ir()},
      {"matmul_i8", &kernels::matmul<lang::i8>().ir()},
      {"mlp_softshrink", &kernels::mlp_softshrink().ir()},
      {"residual_layer_norm", &kernels::residual_layer_norm().ir()},
      {"residual_rms_norm", &kernels::residual_rms_norm().ir()},
      {"rms_norm", &kernels::rms_norm().ir()},
      {"rotary", &kernels::rotary().ir()},
      {"row_sum", &kernels::row_sum().ir()},
      {"sin2_cos2", &kernels::sin2_cos2().ir()},
      {"softmax", &kernels::softmax().ir()},
      {"softmax_long", &kernels::softmax_long().ir()},
      {"sort_rows", &kernels::sort_rows().ir()},
      {"topk", &kernels::topk().ir()},
      {"transpose", &kernels::transpose().ir()},
      {"vector_add", &kernels::vector_add().ir()},
  };
  return list;
}

}  // namespace kiln::dsl
