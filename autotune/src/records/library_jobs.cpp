// The kernel library by name and element type.
#include <algorithm>

#include "kiln/autotune/jobs.h"
#include "kiln/dsl/kernels.h"

namespace kiln::autotune {
namespace {

namespace lang = dsl::lang;

struct Entry {
  std::string_view name;
  std::string type;
  const Result<dsl::Kernel>& (*trace)();
};

// `Trace` is a lambda template over the element type, without captures.
template <class... Types, class Trace>
void add(std::vector<Entry>& list, std::string_view name, Trace) {
  (list.push_back({name, std::string(dsl::info(lang::element_v<Types>).name),
                   []() -> const Result<dsl::Kernel>& { return Trace{}.template operator()<Types>(); }}),
   ...);
}

// What a lambda template over T that calls a kernel of the library looks like.
#define KILN_LIBRARY(kernel) #kernel, []<class T>() -> const Result<dsl::Kernel>& { return kernels::kernel<T>().ir(); }

void add_floats(std::vector<Entry>& list, std::string_view name, auto trace) {
  add<lang::f32, lang::bf16, lang::f16>(list, name, trace);
}

void add_small_types(std::vector<Entry>& list, std::string_view name, auto trace) {
  add<lang::f32, lang::bf16, lang::f16, lang::i8, lang::f8e4m3, lang::f8e5m2>(list, name, trace);
}

void add_rows(std::vector<Entry>& list) {
  add_floats(list, KILN_LIBRARY(argmax));
  add_floats(list, KILN_LIBRARY(column_sum));
  add_floats(list, KILN_LIBRARY(cross_entropy));
  add_floats(list, KILN_LIBRARY(cross_entropy_backward));
  add_floats(list, KILN_LIBRARY(cumsum_columns));
  add_floats(list, KILN_LIBRARY(cumsum_rows));
  add_floats(list, KILN_LIBRARY(layer_norm));
  add_floats(list, KILN_LIBRARY(layer_norm_backward));
  add_floats(list, KILN_LIBRARY(layer_norm_long));
  add_floats(list, KILN_LIBRARY(layer_norm_narrow));
  add_floats(list, KILN_LIBRARY(log_softmax));
  add_floats(list, KILN_LIBRARY(residual_layer_norm));
  add_floats(list, KILN_LIBRARY(residual_rms_norm));
  add_floats(list, KILN_LIBRARY(rms_norm));
  add_floats(list, KILN_LIBRARY(rms_norm_narrow));
  add_floats(list, KILN_LIBRARY(row_sum));
  add_floats(list, KILN_LIBRARY(softmax));
  add_floats(list, KILN_LIBRARY(softmax_long));
  add_floats(list, KILN_LIBRARY(softmax_narrow));
  add_floats(list, KILN_LIBRARY(sort_rows));
  add_floats(list, KILN_LIBRARY(topk));
}

void add_elements(std::vector<Entry>& list) {
  add_floats(list, KILN_LIBRARY(adamw));
  add_floats(list, KILN_LIBRARY(bias_gelu));
  add_floats(list, KILN_LIBRARY(class_balanced_sampler));
  add_floats(list, KILN_LIBRARY(class_balanced_sampler_long));
  add_floats(list, KILN_LIBRARY(dropout));
  add_floats(list, KILN_LIBRARY(embedding));
  add_floats(list, KILN_LIBRARY(embedding_backward));
  add_floats(list, KILN_LIBRARY(embedding_backward_ordered));
  add_floats(list, KILN_LIBRARY(gelu));
  add_floats(list, KILN_LIBRARY(rotary));
  add_floats(list, KILN_LIBRARY(sin2_cos2));
  add_floats(list, KILN_LIBRARY(transpose));
  add_floats(list, KILN_LIBRARY(vector_add));
  // These have one type of element.
  list.push_back({"cross_entropy_mean", "f32", []() -> auto& { return kernels::cross_entropy_mean().ir(); }});
  list.push_back({"histogram", "i32", []() -> auto& { return kernels::histogram().ir(); }});
  list.push_back({"nms", "f32", []() -> auto& { return kernels::nms().ir(); }});
}

void add_products(std::vector<Entry>& list) {
  add_small_types(list, KILN_LIBRARY(matmul));
  add_floats(list, KILN_LIBRARY(attention));
  add_floats(list, KILN_LIBRARY(attention_backward_keys));
  add_floats(list, KILN_LIBRARY(attention_backward_queries));
  add_floats(list, KILN_LIBRARY(attention_combine));
  add_floats(list, KILN_LIBRARY(attention_decode));
  add_floats(list, KILN_LIBRARY(attention_delta));
  add_floats(list, KILN_LIBRARY(attention_f8));  // the type of the result
  add_floats(list, KILN_LIBRARY(attention_with_lse));
  add_floats(list, KILN_LIBRARY(batched_matmul));
  add_floats(list, KILN_LIBRARY(conv2d));
  add_floats(list, KILN_LIBRARY(conv2d_bias_relu));
  add_floats(list, KILN_LIBRARY(conv2d_bias_residual_relu));
  add_floats(list, KILN_LIBRARY(conv2d_depthwise));
  add_floats(list, KILN_LIBRARY(conv2d_grouped));
  add_floats(list, KILN_LIBRARY(conv2d_narrow));
  add_floats(list, KILN_LIBRARY(conv2d_packed));
  add_floats(list, KILN_LIBRARY(dlrm_interaction));
  add_floats(list, KILN_LIBRARY(grouped_matmul));
  add_floats(list, KILN_LIBRARY(matmul_bias_act));
  add_floats(list, KILN_LIBRARY(matmul_bias_act_packed));
  add_floats(list, KILN_LIBRARY(matmul_bias_relu));
  add_floats(list, KILN_LIBRARY(matmul_bias_residual));
  add_floats(list, KILN_LIBRARY(matmul_f8));  // the type of the result
  add_small_types(list, KILN_LIBRARY(matmul_nt));
  add_floats(list, KILN_LIBRARY(matmul_packed));
  add_floats(list, KILN_LIBRARY(matmul_quantise));  // into i8
  add_small_types(list, KILN_LIBRARY(matmul_strided));
  add_small_types(list, KILN_LIBRARY(matmul_tn));
  add_floats(list, KILN_LIBRARY(matmul_w4));
  add_floats(list, KILN_LIBRARY(matmul_w8));
  add_floats(list, KILN_LIBRARY(mlp_softshrink));
  add_floats(list, KILN_LIBRARY(pack_weights));
}

void add_images_and_sequences(std::vector<Entry>& list) {
  add_floats(list, KILN_LIBRARY(append_pages));
  add_floats(list, KILN_LIBRARY(append_pages_quantised));  // into i8
  add_floats(list, KILN_LIBRARY(grouped_matmul_nt));
  add_floats(list, KILN_LIBRARY(grouped_matmul_tn));
  add_floats(list, KILN_LIBRARY(matmul_geglu));
  add_floats(list, KILN_LIBRARY(matmul_swiglu));
  add_floats(list, KILN_LIBRARY(max_pool2d));
  add_floats(list, KILN_LIBRARY(max_pool2d_backward));
  add_floats(list, KILN_LIBRARY(roi_align));
  add_floats(list, KILN_LIBRARY(roi_align_backward));
  add_floats(list, KILN_LIBRARY(selective_scan));
  add_floats(list, KILN_LIBRARY(selective_scan_backward));
}
#undef KILN_LIBRARY

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = [] {
    std::vector<Entry> out;
    add_elements(out);
    add_rows(out);
    add_products(out);
    add_images_and_sequences(out);
    std::stable_sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return out;
  }();
  return list;
}

// "a, b, c" without repetition.
template <class Field>
std::string listed(const std::vector<const Entry*>& items, Field field) {
  std::string out, last;
  for (const Entry* item : items) {
    const std::string text(item->*field);
    if (text != last) out += (out.empty() ? "" : ", ") + text;
    last = text;
  }
  return out;
}

}  // namespace

Result<dsl::Kernel> library_kernel(std::string_view name, std::string_view type) {
  std::vector<const Entry*> all, named;
  for (const Entry& entry : entries()) {
    all.push_back(&entry);
    if (entry.name == name) named.push_back(&entry);
  }
  if (named.empty()) {
    return invalid_argument("the library has no kernel `" + std::string(name) + "`; it has " +
                            listed(all, &Entry::name));
  }
  for (const Entry* entry : named) {
    if (type.empty() || entry->type == type) return entry->trace();
  }
  return invalid_argument("the library has no `" + std::string(name) + "` of `" + std::string(type) +
                          "`; it has those of " + listed(named, &Entry::type));
}

}  // namespace kiln::autotune
