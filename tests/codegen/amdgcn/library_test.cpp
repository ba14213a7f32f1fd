// Every kernel of dsl/examples in its default config for AMD GPUs, executed on odd shapes, against the interpreter: on
// gfx942, gfx1100 or gfx1250, by turns, and with KILN_TEST_ALL on all three.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <variant>

#include "amd_device.h"
#include "differential.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/library_names.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

struct Buffer {
  size_t count;
  int64_t low = 0, high = 0;  // ints of low…high-1; floats N(0, 1), or their magnitudes where high is 1
};
using Value = std::variant<Buffer, int, double>;

struct LaunchCase {
  std::vector<Value> arguments;  // by parameter
  dsl::ConstexprValues config = {};
};

// Rows of 70 of which there are 3, matrices of 33×70 by 70×49, …
const std::map<std::string_view, LaunchCase>& launches() {
  static const Buffer kRows{210}, kRow{70}, kEach{3}, kMany{1000};
  static const LaunchCase kReduced{{kRows, kEach, 3, 67, 70}}, kSameRows{{kRows, kRows, 3, 67, 70}};
  static const LaunchCase kMatmul{{Buffer{33 * 70, -9, 9}, Buffer{70 * 49, -9, 9}, Buffer{33 * 49}, 33, 49, 70}};
  static const LaunchCase kMatmulBias{{Buffer{33 * 70}, Buffer{70 * 49}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70}};
  // One tensor of 200 elements that begin 200 behind each array's base, and one chunk, its first.
  static const Buffer kPart{400}, kPlus{400, 0, 1}, kOne2{2, 0, 1}, kTwo{2, 0, 1};
  static const Buffer kTable4{4, 200, 201}, kTable5{5, 200, 201}, kTable6{6, 200, 201};
  static const std::map<std::string_view, LaunchCase> table = {
      {"adagrad_many", {{kPart, kPart, kPart, kTable4, kOne2, kTwo, 1, 200, 0.1, 1e-8, 0.01}}},
      {"adam_many", {{kPart, kPart, kPart, kPlus, kTable5, kOne2, kTwo, 1, 200, 1e-3, 0.9, 0.999, 1e-8, 0.01, 3}}},
      {"adamw", {{kMany, kMany, kMany, Buffer{1000, 0, 1}, 1000, 1e-3, 0.9, 0.999, 1e-8, 0.01, 3}}},
      {"append_pages",
       {{Buffer{2 * 3 * 5 * 64}, Buffer{8 * 16 * 5 * 64}, Buffer{8, 0, 8}, Buffer{2, 0, 40}, 2, 3, 5, 4}}},
      {"append_pages_quantised",
       {{Buffer{2 * 5 * 64}, Buffer{8 * 16 * 5 * 64, 0, 1}, Buffer{8 * 16 * 5, 0, 1}, Buffer{8, 0, 8}, Buffer{2, 0, 40},
         2, 1, 5, 4}}},
      {"adamw_many", {{kPart, kPart, kPart, kPlus, kTable5, kOne2, kTwo, 1, 200, 1e-3, 0.9, 0.999, 1e-8, 0.01, 3}}},
      {"adamw_split_many",
       {{kPart, kPart, kPart, kPart, kPlus, kTable6, kOne2, kTwo, 1, 200, 1e-3, 0.9, 0.999, 1e-8, 0.01, 3}}},
      {"argmax", kReduced},
      {"attention",
       {{Buffer{2 * 37 * 64}, Buffer{37 * 64}, Buffer{37 * 64}, Buffer{2 * 37 * 64}, Buffer{1, 30, 31}, 1, 2, 1, 37,
         0.125}}},
      {"attention_backward_keys",
       {{Buffer{2 * 37 * 64}, Buffer{37 * 64}, Buffer{37 * 64}, Buffer{2 * 37 * 64}, Buffer{74, 0, 1}, Buffer{74},
         Buffer{37 * 64}, Buffer{37 * 64}, Buffer{1, 30, 31}, 1, 2, 1, 37, 0.125}}},
      {"attention_backward_queries",
       {{Buffer{2 * 37 * 64}, Buffer{37 * 64}, Buffer{37 * 64}, Buffer{2 * 37 * 64}, Buffer{74, 0, 1}, Buffer{74},
         Buffer{2 * 37 * 64}, Buffer{1, 30, 31}, 1, 2, 1, 37, 0.125}}},
      {"attention_combine", {{Buffer{4 * 5 * 64}, Buffer{4 * 5}, Buffer{4 * 64}, 4, 5}}},
      {"attention_decode",
       {{Buffer{2 * 6 * 64}, Buffer{5 * 16 * 2 * 64}, Buffer{5 * 16 * 2 * 64}, Buffer{10, 0, 5}, Buffer{2, 21, 80},
         Buffer{12 * 3 * 64}, Buffer{12 * 3}, 2, 1, 6, 2, 5, 3, 0.125},
        {{"BN", 16}}}},
      {"attention_delta", {{Buffer{37 * 64}, Buffer{37 * 64}, Buffer{37}, 37}}},
      {"attention_f8",
       {{Buffer{2 * 37 * 64}, Buffer{37 * 64}, Buffer{37 * 64}, Buffer{2, 0, 1}, Buffer{1, 0, 1}, Buffer{1, 0, 1},
         Buffer{2 * 37 * 64}, Buffer{1, 30, 31}, 1, 2, 1, 37, 0.125}}},
      {"attention_with_lse",
       {{Buffer{2 * 37 * 64}, Buffer{37 * 64}, Buffer{37 * 64}, Buffer{2 * 37 * 64}, Buffer{74}, Buffer{1, 30, 31}, 1,
         2, 1, 37, 0.125}}},
      {"batched_matmul", {{Buffer{2 * 33 * 40}, Buffer{2 * 40 * 17}, Buffer{2 * 33 * 17}, 2, 33, 17, 40}}},
      {"bias_gelu", {{kRows, kRow, kRows, 3, 70}}},
      {"class_balanced_sampler", {{Buffer{200, 0, 2}, kMany, Buffer{256}, Buffer{1280}, Buffer{4}, 2, 200, 5, 3}}},
      {"class_balanced_sampler_long",
       {{Buffer{200, 0, 2}, kMany, Buffer{256}, Buffer{1280}, Buffer{4}, 2, 200, 5, 3}, {{"BLOCK", 256}}}},
      {"column_sum", {{Buffer{37 * 70}, kRow, 37, 70}}},
      {"conv2d", {{Buffer{7 * 6 * 3}, Buffer{5 * 3 * 3 * 3}, Buffer{7 * 6 * 5}, 1, 7, 6, 3, 5, 3, 3, 1, 1}}},
      {"conv2d_bias_relu",
       {{Buffer{7 * 6 * 3}, Buffer{5 * 3 * 3 * 3}, Buffer{5}, Buffer{7 * 6 * 5}, 1, 7, 6, 3, 5, 3, 3, 1, 1}}},
      {"conv2d_bias_residual_relu",
       {{Buffer{7 * 6 * 3}, Buffer{5 * 3 * 3 * 3}, Buffer{5}, Buffer{7 * 6 * 5}, Buffer{7 * 6 * 5}, 1, 7, 6, 3, 5, 3, 3,
         1, 1}}},
      {"conv2d_depthwise", {{Buffer{7 * 6 * 37}, Buffer{9 * 37}, Buffer{7 * 6 * 37}, 1, 7, 6, 37, 1, 1}}},
      {"conv2d_grouped",
       {{Buffer{7 * 6 * 6}, Buffer{10 * 3 * 3 * 3}, Buffer{7 * 6 * 10}, 1, 7, 6, 6, 10, 3, 3, 1, 1, 2}}},
      {"conv2d_narrow", {{Buffer{7 * 6 * 36}, Buffer{9 * 4 * 36}, Buffer{7 * 6 * 36}, 1, 7, 6, 36, 1, 1}}},
      {"conv2d_packed", {{Buffer{7 * 6 * 3}, Buffer{64 * 27}, Buffer{7 * 6 * 5}, 1, 7, 6, 3, 5, 3, 3, 1, 1}}},
      {"conv2d_q8",
       {{Buffer{7 * 6 * 3}, Buffer{5 * 3 * 3 * 3}, Buffer{5}, Buffer{5}, Buffer{7 * 6 * 5}, 1, 7, 6, 3, 5, 3, 3, 1, 1,
         9, 0.01, 128}}},
      {"cross_entropy", {{kRows, Buffer{3, 0, 70}, kEach, kEach, 3, 70}}},
      {"cross_entropy_backward", {{kRows, Buffer{3, 0, 70}, kEach, kRows, 3, 70, 0.5}}},
      {"cross_entropy_mean", {{kRow, Buffer{70, 0, 5}, Buffer{1}, 70, 5}}},
      {"cumsum_columns", {{Buffer{37 * 70}, Buffer{37 * 70}, 37, 70}}},
      {"cumsum_rows", {{Buffer{3 * 1100}, Buffer{3 * 1100}, 3, 1100}}},
      {"dlrm_interaction", {{Buffer{2 * 27 * 128}, Buffer{2 * 479}, 2}}},
      {"dlrm_interaction_backward", {{Buffer{2 * 27 * 128}, Buffer{2 * 479}, Buffer{2 * 27 * 128}, 2}}},
      {"dropout", {{kMany, kMany, 1000, 0.3, 5, 7}}},
      {"embedding", {{Buffer{11 * 70}, Buffer{9, 0, 11}, Buffer{9 * 70}, 9, 70}}},
      {"embedding_adagrad",
       {{Buffer{770}, Buffer{770, 0, 1}, Buffer{3, 0, 1}, Buffer{9, 4, 5}, Buffer{9, 0, 9}, Buffer{9, 0, 3}, Buffer{9},
         Buffer{3 * 70}, 9, 3, 70, 70, 0.1, 1e-5}}},
      {"embedding_backward", {{Buffer{9 * 70}, Buffer{9, 0, 11}, Buffer{11 * 70}, 9, 70}}},
      {"embedding_backward_ordered", {{Buffer{9 * 70}, Buffer{9, 0, 11}, Buffer{11 * 70}, 9, 70}}},
      {"embedding_bag",
       {{Buffer{2 * 770}, Buffer{4, 770, 771}, Buffer{9, 0, 11}, Buffer{7, 3, 6}, Buffer{9}, Buffer{3 * 140}, 3, 2, 70,
         140, 4}}},
      {"embedding_keys", {{Buffer{9, 0, 11}, Buffer{7, 0, 1}, Buffer{9}, Buffer{9}, Buffer{9}, Buffer{9}, 3, 2, 4}}},
      {"embedding_order", {{Buffer{700, 0, 90}, Buffer{700}, Buffer{700}, 700}, {{"BLOCK", 1024}}}},
      {"embedding_rowwise_adagrad",
       {{Buffer{770}, Buffer{11, 0, 1}, Buffer{3, 0, 1}, Buffer{9, 4, 5}, Buffer{9, 0, 9}, Buffer{9, 0, 3}, Buffer{9},
         Buffer{3 * 70}, 9, 3, 70, 70, 0.1, 1e-5}}},
      {"embedding_sgd",
       {{Buffer{770}, Buffer{2, 0, 1}, Buffer{9, 4, 5}, Buffer{9, 0, 9}, Buffer{9, 0, 3}, Buffer{9}, Buffer{3 * 70}, 9,
         3, 70, 70, 0.1}}},
      {"embedding_sgd_atomic",
       {{Buffer{2 * 770}, Buffer{4, 770, 771}, Buffer{9, 0, 11}, Buffer{7, 3, 6}, Buffer{9}, Buffer{3 * 140}, 3, 2, 70,
         140, 4, 0.1}}},
      {"fold_zero_point", {{Buffer{3 * 70}, kEach, kEach, kEach, kEach, 3, 70, 0.5, 7}}},
      {"gelu", {{kMany, kMany, 1000}}},
      {"gradient_factor", {{Buffer{70, 0, 1}, Buffer{70, 0, 2}, kTwo, Buffer{1}, 70, 0.5, 8.0}}},
      {"gradient_sums", {{kPart, Buffer{2, 200, 201}, kOne2, Buffer{1}, Buffer{1}, 1, 200}}},
      {"grouped_matmul",
       {{Buffer{33 * 40, -9, 9}, Buffer{3 * 40 * 17, -9, 9}, Buffer{3, 11, 12}, Buffer{33 * 17}, 33, 17, 40, 3}}},
      {"grouped_matmul_nt",
       {{Buffer{33 * 40, -9, 9}, Buffer{3 * 40 * 17, -9, 9}, Buffer{3, 11, 12}, Buffer{33 * 17}, 33, 17, 40, 3}}},
      {"grouped_matmul_tn",
       {{Buffer{33 * 40, -9, 9}, Buffer{33 * 17, -9, 9}, Buffer{3, 11, 12}, Buffer{3 * 40 * 17}, 33, 17, 40, 3}}},
      {"histogram", {{Buffer{1000, 0, 256}, Buffer{256, 0, 9}, 1000}}},
      {"lamb_many", {{kPart, kPart, kPlus, kTable4, kOne2, kTwo, Buffer{1}, 1, 200, 1e-3, 0.9, 0.999, 1e-8, 0.01, 3}}},
      {"lamb_moments",
       {{kPart, kPart, kPart, kPlus, kTable5, kOne2, kTwo, Buffer{2}, 1, 200, 0.9, 0.999, 1e-8, 0.01, 3}}},
      {"lamb_trust", {{Buffer{2 * 70, 0, 1}, Buffer{4, 0, 70}, kEach, 3, 70}}},
      {"layer_norm", {{kRows, kRow, kRow, kRows, 3, 67, 70, 1e-5}}},
      {"layer_norm_backward", {{kRows, kRow, kRows, kRows, kRow, kRow, 3, 70, 1e-5}}},
      {"layer_norm_long", {{Buffer{2 * 4500}, Buffer{4500}, Buffer{4500}, Buffer{2 * 4500}, 2, 4500, 4500, 1e-5}}},
      {"layer_norm_narrow", {{kRows, kRow, kRow, kRows, 3, 67, 70, 1e-5}}},
      {"linear_dynamic",
       {{Buffer{33 * 70}, Buffer{49 * 70}, Buffer{33}, Buffer{49}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70}}},
      {"linear_f8",
       {{Buffer{33 * 200}, Buffer{49 * 200}, Buffer{33}, Buffer{49}, Buffer{49}, Buffer{33 * 49}, 33, 49, 200}}},
      {"linear_q8",
       {{Buffer{33 * 70}, Buffer{49 * 70}, Buffer{49}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70, 0.01, 128}}},
      {"linear_q8_packed",
       {{Buffer{33 * 70}, Buffer{72 * 64}, Buffer{49}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70, 0.01, 128}}},
      {"lion_many", {{kPart, kPart, kPart, kTable4, kOne2, kTwo, 1, 200, 1e-3, 0.9, 0.99, 0.01}}},
      {"log_softmax", kSameRows},
      {"matmul", kMatmul},
      {"matmul_bias_act", kMatmulBias},
      {"matmul_bias_act_packed", {{Buffer{33 * 70}, Buffer{70 * 64}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70}}},
      {"matmul_bias_relu", kMatmulBias},
      {"matmul_bias_residual",
       {{Buffer{33 * 70}, Buffer{70 * 49}, Buffer{49}, Buffer{33 * 49}, Buffer{33 * 49}, 33, 49, 70}}},
      {"matmul_f32", kMatmul},
      {"matmul_f8", {{Buffer{33 * 200}, Buffer{49 * 200}, Buffer{2 * 33}, Buffer{2}, Buffer{33 * 49}, 33, 49, 200}}},
      {"matmul_geglu", {{Buffer{33 * 70}, Buffer{70 * 98}, Buffer{33 * 49}, 33, 49, 70}}},
      {"matmul_i8", kMatmul},
      {"matmul_mx",
       {{Buffer{33 * 96}, Buffer{49 * 96}, Buffer{33 * 3, 125, 130}, Buffer{49 * 3, 125, 130}, Buffer{33 * 49}, 33, 49,
         96}}},
      {"matmul_nt", kMatmul},
      {"matmul_packed", {{Buffer{33 * 70}, Buffer{70 * 64}, Buffer{33 * 49}, 33, 49, 70}}},
      {"matmul_quantise", {{Buffer{33 * 70}, Buffer{70 * 49}, Buffer{33}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70}}},
      {"matmul_strided", {{Buffer{33 * 72}, Buffer{70 * 50}, Buffer{33 * 52}, 33, 49, 70, 72, 50, 52}}},
      {"matmul_swiglu", {{Buffer{33 * 70}, Buffer{70 * 98}, Buffer{33 * 49}, 33, 49, 70}}},
      {"matmul_tn", kMatmul},
      {"matmul_w4", {{Buffer{33 * 70}, Buffer{49 * 40}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70, 40}}},
      {"matmul_w4_groups",
       {{Buffer{33 * 70}, Buffer{49 * 40}, Buffer{3 * 49}, Buffer{3 * 49, 0, 16}, Buffer{33 * 49}, 33, 49, 70, 40}}},
      {"matmul_w8", {{Buffer{33 * 70}, Buffer{70 * 49, -9, 9}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70}}},
      {"max_pool2d", {{Buffer{2 * 7 * 6 * 5}, Buffer{2 * 4 * 3 * 5}, Buffer{2 * 4 * 3 * 5}, 2, 7, 6, 5, 3, 3, 2, 1}}},
      {"max_pool2d_backward",
       {{Buffer{2 * 4 * 3 * 5}, Buffer{2 * 4 * 3 * 5, 0, 42}, Buffer{2 * 7 * 6 * 5}, 2, 7, 6, 5, 3, 3, 2, 1}}},
      {"matmul_wf8", {{Buffer{33 * 70}, Buffer{70 * 49}, Buffer{49}, Buffer{33 * 49}, 33, 49, 70}}},
      {"mlp_softshrink",
       {{Buffer{140}, Buffer{240}, Buffer{12}, Buffer{144}, Buffer{12}, Buffer{144}, Buffer{12}, Buffer{36}, kEach,
         Buffer{21}, 7, 0.5},
        {{"IN", 20}, {"HIDDEN", 12}, {"OUT", 3}, {"BM", 16}, {"BK", 8}}}},
      {"nms",
       {{Buffer{2 * 37 * 4, 0, 1}, Buffer{2 * 37}, Buffer{2 * 37, 0, 3}, Buffer{2 * 20}, Buffer{2}, 2, 37, 0.3},
        {{"K", 20}}}},
      {"pack_weights", {{Buffer{70 * 49}, Buffer{70 * 64}, 49, 70, 49, 1}}},
      {"quantise_mx", {{Buffer{3 * 96}, Buffer{3 * 96}, Buffer{9}, 3, 96}}},
      {"quantise_tokens", {{kRows, kRows, kEach, 3, 70}}},
      {"residual_layer_norm", {{kRows, kRows, kRow, kRow, kRows, 3, 70, 1e-5}}},
      {"residual_rms_norm", {{kRows, kRows, kRow, kRows, kRows, 3, 70, 1e-5}}},
      {"rms_norm", {{kRows, kRow, kRows, 3, 67, 70, 1e-5}}},
      {"rms_norm_narrow", {{kRows, kRow, kRows, 3, 67, 70, 1e-5}}},
      {"roi_align",
       {{Buffer{2 * 9 * 8 * 37}, Buffer{5 * 4}, Buffer{5, 0, 2}, Buffer{5 * 6 * 37}, 9, 8, 37, 5, 2, 3, 4.0}}},
      {"roi_align_backward",
       {{Buffer{5 * 6 * 37}, Buffer{5 * 4}, Buffer{5, 0, 2}, Buffer{2 * 9 * 8 * 37}, 9, 8, 37, 5, 2, 3, 4.0}}},
      {"rotary", {{Buffer{1920}, Buffer{704}, Buffer{704}, Buffer{3, 0, 11}, Buffer{1920}, 3, 5}}},
      {"row_sum", kReduced},
      {"selective_scan",
       {{Buffer{2 * 21 * 19}, Buffer{2 * 21 * 19, 0, 1}, Buffer{19 * 16, -1, -1}, Buffer{2 * 21 * 16},
         Buffer{2 * 21 * 16}, Buffer{19}, Buffer{2 * 21 * 19}, Buffer{2 * 2 * 19 * 16}, 2, 21, 19}}},
      {"selective_scan_backward",
       {{Buffer{2 * 21 * 19}, Buffer{2 * 21 * 19, 0, 1}, Buffer{19 * 16}, Buffer{2 * 21 * 16}, Buffer{2 * 21 * 16},
         Buffer{19}, Buffer{2 * 2 * 19 * 16}, Buffer{2 * 21 * 19}, Buffer{2 * 21 * 19}, Buffer{2 * 21 * 19},
         Buffer{2 * 19 * 16}, Buffer{5 * 2 * 21 * 16}, Buffer{5 * 2 * 21 * 16}, Buffer{2 * 19}, 2, 21, 19},
        {{"BD", 4}}}},
      {"scale_many", {{kPart, Buffer{2, 200, 201}, kOne2, kTwo, 1, 200}}},
      {"sgd_many", {{kPart, kPart, kPart, kTable4, kOne2, kTwo, 1, 200, 0.1, 0.9, 0.5, 0.01}}},
      {"sgd_split_many", {{kPart, kPart, kPart, kPart, kTable5, kOne2, kTwo, 1, 200, 0.1, 0.9, 0.5, 0.01}}},
      {"sin2_cos2", {{kMany, kMany, 1000}}},
      {"softmax", kSameRows},
      {"softmax_long", {{Buffer{2 * 4500}, Buffer{2 * 4500}, 2, 4500, 4500}}},
      {"softmax_narrow", kSameRows},
      {"sort_rows", {{kRows, kRows, 3, 70}}},
      {"topk", {{kRows, Buffer{24}, Buffer{24}, 3, 70}}},
      {"transpose", {{Buffer{37 * 70}, Buffer{37 * 70}, 37, 70}}},
      {"vector_add", {{kMany, kMany, kMany, 1000}}},
  };
  return table;
}

TestArgument filled(ElementType type, const Buffer& buffer, uint32_t seed) {
  TestArgument out = random_buffer(type, buffer.count, seed, false);
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  for (size_t i = 0; i < buffer.count && buffer.high > buffer.low; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, out.buffer.data() + i * bytes, bytes);
    if (dsl::is_float(type)) {
      bits = dsl::bits_from_double(type, std::fabs(dsl::double_from_bits(type, bits)));
    } else {
      bits = static_cast<uint64_t>(buffer.low + static_cast<int64_t>(bits % uint64_t(buffer.high - buffer.low)));
    }
    std::memcpy(out.buffer.data() + i * bytes, &bits, bytes);
  }
  return out;
}

std::vector<TestArgument> arguments_of(const dsl::Kernel& kernel, const LaunchCase& launch) {
  std::vector<TestArgument> out;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const ElementType type = kernel.params[i].type.element;
    if (const auto* buffer = std::get_if<Buffer>(&launch.arguments[i])) {
      out.push_back(filled(type, *buffer, static_cast<uint32_t>(i + 1)));
    } else if (const auto* number = std::get_if<int>(&launch.arguments[i])) {
      out.push_back(int_scalar(*number));
    } else {
      out.push_back(scalar_bits(dsl::bits_from_double(type, std::get<double>(launch.arguments[i]))));
    }
  }
  return out;
}

// What another order of sums may change.
Match match_of(ElementType type) {
  if (!dsl::is_float(type)) return kExact;
  return type == ElementType::kBF16 ? Match{1.6e-2, 1e-2, true} : Match{1e-4, 1e-4, true};
}

class LibraryOnAmd : public testing::TestWithParam<std::string_view> {};

// One behind the other in the list of kernels, so that those that are alike are on each of them.
std::vector<const char*> processors_for(std::string_view kernel) {
  const std::vector<const char*> all = {"amd:gfx942", "amd:gfx1100", "amd:gfx1250"};
  if (runs_all_cases()) return all;
  const auto names = dsl::library_kernel_names();
  return {all[static_cast<size_t>(std::ranges::find(names, kernel) - names.begin()) % all.size()]};
}

TEST_P(LibraryOnAmd, GivesWhatTheInterpreterGives) {
  const dsl::Kernel& kernel = **dsl::find_library_kernel(GetParam());
  const auto launch = launches().find(GetParam());
  ASSERT_NE(launch, launches().end()) << "no arguments for it here";
  ASSERT_EQ(launch->second.arguments.size(), kernel.params.size());
  const std::vector<TestArgument> arguments = arguments_of(kernel, launch->second);
  std::vector<TestArgument> expected = arguments;
  const auto interpreted = run_interpreted(kernel, launch->second.config, {}, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  for (const char* target : processors_for(GetParam())) {
    SCOPED_TRACE(target);
    const auto config = dsl::complete_constexprs(kernel, launch->second.config, target);
    ASSERT_TRUE(config.ok()) << config.error().message;
    const auto artifact = compile(kernel, *config, {}, target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    std::vector<TestArgument> actual = arguments;
    const auto ran = run_compiled(kernel, *artifact, actual);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    for (size_t i = 0; i < actual.size(); ++i) {
      if (!actual[i].is_buffer) continue;
      const ElementType type = kernel.params[i].type.element;
      std::string explanation;
      EXPECT_EQ(count_differences(type, actual[i].buffer, expected[i].buffer, match_of(type), explanation), 0u)
          << kernel.params[i].name << "\n"
          << explanation;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LibraryOnAmd,
                         testing::ValuesIn(dsl::library_kernel_names().begin(), dsl::library_kernel_names().end()),
                         [](const auto& info) { return std::string(info.param); });

// ---- LDS banks ----

struct Flagship {
  const char* name;
  std::function<dsl::Kernel()> kernel;  // traced by those who need it: each test is a process that knows all of them
  LaunchCase launch;
};
void PrintTo(const Flagship& test, std::ostream* out) { *out << test.name; }

class FlagshipOnAmd : public testing::TestWithParam<Flagship> {};

// With pointers and ints that are multiples of 16, for the widest accesses.
TEST_P(FlagshipOnAmd, LanesDoNotMeetInTheBanksOfLds) {
  const dsl::Kernel kernel = GetParam().kernel();
  dsl::Facts facts;
  for (const dsl::Param& param : kernel.params) {
    const bool is_int = !param.type.pointer && dsl::is_int(param.type.element);
    facts.push_back(param.type.pointer ? dsl::ParamFact::kAlign16
                    : is_int           ? dsl::ParamFact::kMultiple16
                                       : dsl::ParamFact::kNone);
  }
  for (const char* target : {"amd:gfx942", "amd:gfx1100"}) {
    SCOPED_TRACE(target);
    const auto config = dsl::complete_constexprs(kernel, GetParam().launch.config, target);
    ASSERT_TRUE(config.ok()) << config.error().message;
    const auto artifact = compile(kernel, *config, facts, target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    std::vector<TestArgument> arguments = arguments_of(kernel, GetParam().launch);
    std::vector<dsl::Argument> raw;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const int bytes = dsl::info(kernel.params[i].type.element).bytes;
      raw.push_back(
          {arguments[i].buffer.data(), static_cast<int64_t>(arguments[i].buffer.size()) / bytes, arguments[i].bits});
    }
    const auto grid = grid_of(kernel, *config, arguments);
    ASSERT_TRUE(grid.ok()) << grid.error().message;
    const auto conflicts = bank_conflicts_on_amd(*artifact, kernel, raw, *grid);
    ASSERT_TRUE(conflicts.ok()) << conflicts.error().message;
    uint64_t lost = 0;
    std::string where;
    for (const auto& [instruction, turns] : *conflicts) {
      lost += turns;
      where += std::to_string(turns) + " in " + instruction + "\n";
    }
    EXPECT_EQ(lost, 0u) << where;
  }
}

template <class T>
Flagship matmul_of(const char* name) {
  constexpr size_t kCount = 128 * 128;
  return {name,
          [] { return *kernels::matmul<T>().ir(); },
          {{Buffer{kCount}, Buffer{kCount}, Buffer{kCount}, 128, 128, 128}}};
}

const Buffer kSquare{64 * 256}, kLine{256};
INSTANTIATE_TEST_SUITE_P(
    Kernels, FlagshipOnAmd,
    testing::Values(matmul_of<dsl::lang::f32>("matmul_f32"), matmul_of<dsl::lang::bf16>("matmul_bf16"),
                    matmul_of<dsl::lang::f16>("matmul_f16"), matmul_of<dsl::lang::i8>("matmul_i8"),
                    Flagship{"attention_bf16",
                             [] { return *kernels::attention<dsl::lang::bf16>().ir(); },
                             {{Buffer{2 * 128 * 64}, Buffer{128 * 64}, Buffer{128 * 64}, Buffer{2 * 128 * 64},
                               Buffer{1, 128, 129}, 1, 2, 1, 128, 0.125}}},
                    Flagship{"transpose", [] { return *kernels::transpose().ir(); }, {{kSquare, kSquare, 64, 256}}},
                    Flagship{"softmax", [] { return *kernels::softmax().ir(); }, {{kSquare, kSquare, 64, 256, 256}}},
                    Flagship{"row_sum", [] { return *kernels::row_sum().ir(); }, {{kSquare, Buffer{64}, 64, 256, 256}}},
                    Flagship{"layer_norm",
                             [] { return *kernels::layer_norm().ir(); },
                             {{kSquare, kLine, kLine, kSquare, 64, 256, 256, 1e-5}}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln::test
