// The list of the kernel library, for the command that writes dsl/examples and for the tests.
#include "kiln/dsl/kernels.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kiln/dsl/kept.h"
#include "kiln/dsl/library_names.h"

namespace kiln::dsl {
namespace {

struct Entry {
  std::string_view name;
  const Result<Kernel>* (*traced)();
};

constexpr Entry kLibrary[] = {
    {"adagrad_many", [] { return &kernels::adagrad_many().ir(); }},
    {"adam_many", [] { return &kernels::adam_many().ir(); }},
    {"adamw", [] { return &kernels::adamw().ir(); }},
    {"adamw_many", [] { return &kernels::adamw_many().ir(); }},
    {"adamw_split_many", [] { return &kernels::adamw_split_many().ir(); }},
    {"append_pages", [] { return &kernels::append_pages().ir(); }},
    {"append_pages_quantised", [] { return &kernels::append_pages_quantised().ir(); }},
    {"argmax", [] { return &kernels::argmax().ir(); }},
    {"attention", [] { return &kernels::attention().ir(); }},
    {"attention_backward_keys", [] { return &kernels::attention_backward_keys().ir(); }},
    {"attention_backward_queries", [] { return &kernels::attention_backward_queries().ir(); }},
    {"attention_combine", [] { return &kernels::attention_combine().ir(); }},
    {"attention_decode", [] { return &kernels::attention_decode().ir(); }},
    {"attention_delta", [] { return &kernels::attention_delta().ir(); }},
    {"attention_f8", [] { return &kernels::attention_f8().ir(); }},
    {"attention_with_lse", [] { return &kernels::attention_with_lse().ir(); }},
    {"batched_matmul", [] { return &kernels::batched_matmul().ir(); }},
    {"bias_gelu", [] { return &kernels::bias_gelu().ir(); }},
    {"class_balanced_sampler", [] { return &kernels::class_balanced_sampler().ir(); }},
    {"class_balanced_sampler_long", [] { return &kernels::class_balanced_sampler_long().ir(); }},
    {"column_sum", [] { return &kernels::column_sum().ir(); }},
    {"conv2d", [] { return &kernels::conv2d().ir(); }},
    {"conv2d_bias_relu", [] { return &kernels::conv2d_bias_relu().ir(); }},
    {"conv2d_bias_residual_relu", [] { return &kernels::conv2d_bias_residual_relu().ir(); }},
    {"conv2d_depthwise", [] { return &kernels::conv2d_depthwise().ir(); }},
    {"conv2d_grouped", [] { return &kernels::conv2d_grouped().ir(); }},
    {"conv2d_narrow", [] { return &kernels::conv2d_narrow().ir(); }},
    {"conv2d_packed", [] { return &kernels::conv2d_packed().ir(); }},
    {"conv2d_q8", [] { return &kernels::conv2d_q8().ir(); }},
    {"cross_entropy", [] { return &kernels::cross_entropy().ir(); }},
    {"cross_entropy_backward", [] { return &kernels::cross_entropy_backward().ir(); }},
    {"cross_entropy_mean", [] { return &kernels::cross_entropy_mean().ir(); }},
    {"cumsum_columns", [] { return &kernels::cumsum_columns().ir(); }},
    {"cumsum_rows", [] { return &kernels::cumsum_rows().ir(); }},
    {"dlrm_interaction", [] { return &kernels::dlrm_interaction().ir(); }},
    {"dlrm_interaction_backward", [] { return &kernels::dlrm_interaction_backward().ir(); }},
    {"dropout", [] { return &kernels::dropout().ir(); }},
    {"embedding", [] { return &kernels::embedding().ir(); }},
    {"embedding_adagrad", [] { return &kernels::embedding_adagrad().ir(); }},
    {"embedding_backward", [] { return &kernels::embedding_backward().ir(); }},
    {"embedding_backward_ordered", [] { return &kernels::embedding_backward_ordered().ir(); }},
    {"embedding_bag", [] { return &kernels::embedding_bag().ir(); }},
    {"embedding_keys", [] { return &kernels::embedding_keys().ir(); }},
    {"embedding_order", [] { return &kernels::embedding_order().ir(); }},
    {"embedding_rowwise_adagrad", [] { return &kernels::embedding_rowwise_adagrad().ir(); }},
    {"embedding_sgd", [] { return &kernels::embedding_sgd().ir(); }},
    {"embedding_sgd_atomic", [] { return &kernels::embedding_sgd_atomic().ir(); }},
    {"fold_zero_point", [] { return &kernels::fold_zero_point().ir(); }},
    {"gelu", [] { return &kernels::gelu().ir(); }},
    {"gradient_factor", [] { return &kernels::gradient_factor().ir(); }},
    {"gradient_sums", [] { return &kernels::gradient_sums().ir(); }},
    {"grouped_matmul", [] { return &kernels::grouped_matmul().ir(); }},
    {"grouped_matmul_nt", [] { return &kernels::grouped_matmul_nt<lang::bf16>().ir(); }},
    {"grouped_matmul_tn", [] { return &kernels::grouped_matmul_tn<lang::bf16>().ir(); }},
    {"histogram", [] { return &kernels::histogram().ir(); }},
    {"lamb_many", [] { return &kernels::lamb_many().ir(); }},
    {"lamb_moments", [] { return &kernels::lamb_moments().ir(); }},
    {"lamb_trust", [] { return &kernels::lamb_trust().ir(); }},
    {"layer_norm", [] { return &kernels::layer_norm().ir(); }},
    {"layer_norm_backward", [] { return &kernels::layer_norm_backward().ir(); }},
    {"layer_norm_long", [] { return &kernels::layer_norm_long().ir(); }},
    {"layer_norm_narrow", [] { return &kernels::layer_norm_narrow().ir(); }},
    {"linear_dynamic", [] { return &kernels::linear_dynamic().ir(); }},
    {"linear_f8", [] { return &kernels::linear_f8().ir(); }},
    {"linear_q8", [] { return &kernels::linear_q8().ir(); }},
    {"linear_q8_packed", [] { return &kernels::linear_q8_packed().ir(); }},
    {"lion_many", [] { return &kernels::lion_many().ir(); }},
    {"log_softmax", [] { return &kernels::log_softmax().ir(); }},
    {"matmul", [] { return &kernels::matmul<lang::bf16>().ir(); }},
    {"matmul_bias_act", [] { return &kernels::matmul_bias_act().ir(); }},
    {"matmul_bias_act_packed", [] { return &kernels::matmul_bias_act_packed().ir(); }},
    {"matmul_bias_relu", [] { return &kernels::matmul_bias_relu().ir(); }},
    {"matmul_bias_residual", [] { return &kernels::matmul_bias_residual().ir(); }},
    {"matmul_f32", [] { return &kernels::matmul().ir(); }},
    {"matmul_f8", [] { return &kernels::matmul_f8().ir(); }},
    {"matmul_geglu", [] { return &kernels::matmul_geglu<lang::bf16>().ir(); }},
    {"matmul_i8", [] { return &kernels::matmul<lang::i8>().ir(); }},
    {"matmul_mx", [] { return &kernels::matmul_mx().ir(); }},
    {"matmul_nt", [] { return &kernels::matmul_nt<lang::bf16>().ir(); }},
    {"matmul_packed", [] { return &kernels::matmul_packed().ir(); }},
    {"matmul_quantise", [] { return &kernels::matmul_quantise().ir(); }},
    {"matmul_strided", [] { return &kernels::matmul_strided<lang::bf16>().ir(); }},
    {"matmul_swiglu", [] { return &kernels::matmul_swiglu<lang::bf16>().ir(); }},
    {"matmul_tn", [] { return &kernels::matmul_tn<lang::bf16>().ir(); }},
    {"matmul_w4", [] { return &kernels::matmul_w4<lang::bf16>().ir(); }},
    {"matmul_w4_groups", [] { return &kernels::matmul_w4_groups<lang::bf16>().ir(); }},
    {"matmul_w8", [] { return &kernels::matmul_w8<lang::bf16>().ir(); }},
    {"matmul_wf8", [] { return &kernels::matmul_wf8<lang::bf16>().ir(); }},
    {"max_pool2d", [] { return &kernels::max_pool2d().ir(); }},
    {"max_pool2d_backward", [] { return &kernels::max_pool2d_backward().ir(); }},
    {"mlp_softshrink", [] { return &kernels::mlp_softshrink().ir(); }},
    {"nms", [] { return &kernels::nms().ir(); }},
    {"pack_weights", [] { return &kernels::pack_weights().ir(); }},
    {"quantise_mx", [] { return &kernels::quantise_mx().ir(); }},
    {"quantise_tokens", [] { return &kernels::quantise_tokens().ir(); }},
    {"residual_layer_norm", [] { return &kernels::residual_layer_norm().ir(); }},
    {"residual_rms_norm", [] { return &kernels::residual_rms_norm().ir(); }},
    {"rms_norm", [] { return &kernels::rms_norm().ir(); }},
    {"rms_norm_narrow", [] { return &kernels::rms_norm_narrow().ir(); }},
    {"roi_align", [] { return &kernels::roi_align().ir(); }},
    {"roi_align_backward", [] { return &kernels::roi_align_backward().ir(); }},
    {"rotary", [] { return &kernels::rotary().ir(); }},
    {"row_sum", [] { return &kernels::row_sum().ir(); }},
    {"scale_many", [] { return &kernels::scale_many().ir(); }},
    {"selective_scan", [] { return &kernels::selective_scan().ir(); }},
    {"selective_scan_backward", [] { return &kernels::selective_scan_backward().ir(); }},
    {"sgd_many", [] { return &kernels::sgd_many().ir(); }},
    {"sgd_split_many", [] { return &kernels::sgd_split_many().ir(); }},
    {"sin2_cos2", [] { return &kernels::sin2_cos2().ir(); }},
    {"softmax", [] { return &kernels::softmax().ir(); }},
    {"softmax_long", [] { return &kernels::softmax_long().ir(); }},
    {"softmax_narrow", [] { return &kernels::softmax_narrow().ir(); }},
    {"sort_rows", [] { return &kernels::sort_rows().ir(); }},
    {"topk", [] { return &kernels::topk().ir(); }},
    {"transpose", [] { return &kernels::transpose().ir(); }},
    {"vector_add", [] { return &kernels::vector_add().ir(); }},
};

}  // namespace

std::span<const LibraryKernel> library_kernels() {
  static const Kept list = [] {
    std::vector<LibraryKernel> out;
    for (const Entry& entry : kLibrary) out.push_back({entry.name, entry.traced()});
    return out;
  }();
  return *list;
}

std::span<const std::string_view> library_kernel_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, std::size(kLibrary)> out;
    std::ranges::transform(kLibrary, out.begin(), &Entry::name);
    return out;
  }();
  return kNames;
}

const Result<Kernel>* find_library_kernel(std::string_view name) {
  const auto* const entry = std::ranges::find(kLibrary, name, &Entry::name);
  return entry == std::end(kLibrary) ? nullptr : entry->traced();
}

}  // namespace kiln::dsl
