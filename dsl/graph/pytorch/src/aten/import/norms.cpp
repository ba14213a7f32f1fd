// Softmax, norms and dropout.
#include <cmath>
#include <limits>

#include "aten/import/functions.h"

namespace kiln::graph::aten {
namespace {

// softmax and its logarithm along `dim`; in `dtype`, or in f32 with half_to_float.
template <Tensor (*function)(Operand, int)>
Results along_axis(Arguments& a) {
  const Tensor given = a.tensor("self");
  Tensor x = as(given, a.element("dtype", as_real(given.element())));
  if (a.flag("half_to_float", false)) x = as(x, f32);
  const int at = a.axis("dim", x.rank());
  if (!a.ok()) return {};
  if (x.rank() == 0) return {reshape(function(reshape(x, {1}), 0), {})};
  return {function(x, at)};
}

// Rows of -inf alone are 0, not NaN.
Results safe_softmax(Arguments& a) {
  const Tensor given = a.tensor("self"), x = as(given, a.element("dtype", given.element()));
  const int at = a.axis("dim", x.rank());
  if (!a.ok()) return {};
  const Tensor none = every(x == -std::numeric_limits<double>::infinity(), {at}, true);
  return {where(none, 0, softmax(x, at))};
}

Axes last_axes(Arguments& a, const Tensor& x) {
  const size_t count = a.shape("normalized_shape").size();
  if (a.ok() && (count == 0 || count > static_cast<size_t>(x.rank()))) a.fail("`normalized_shape` has other axes");
  Axes out;
  for (int i = x.rank() - static_cast<int>(count); a.ok() && i < x.rank(); ++i) out.push_back(i);
  return out;
}

// Weights of another type: what they scale is computed in the wider one, and of x's type in the end.
Operand beside(const Operand& weight, const Tensor& x) {
  return weight.present() ? Operand(like(weight.tensor(), x)) : weight;
}

Results layer_norm_of(Arguments& a) {
  const Tensor x = a.tensor("input");
  const Operand weight = a.optional("weight"), bias = a.optional("bias");
  const double eps = a.real("eps", 1e-5);
  const Axes axes = last_axes(a, x);
  if (!a.ok()) return {};
  const bool wider = weight.present() && weight.tensor().element() != x.element();
  const Tensor in = wider ? as(x, f32) : x;
  const Tensor y = layer_norm(in, beside(weight, in), beside(bias, in), eps, static_cast<int>(axes.size()));
  Results out = {like(y, x)};
  if (a.base() == "layer_norm" || (!a.wants(1) && !a.wants(2))) return out;
  const Tensor w = wide(x);
  out.push_back(mean(w, axes, true));
  out.push_back(rsqrt(variance(w, axes, 0, true) + eps));
  // The statistics of mixed types are f32, of one type its own.
  if (!wider) {
    for (size_t i = 1; i < 3; ++i) out[i] = like(out[i], x);
  }
  return out;
}

double epsilon_of(ElementType type) {
  return type == f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

Results rms_norm_of(Arguments& a) {
  const Tensor x = a.tensor("input");
  const Operand weight = a.optional("weight");
  const double eps = a.real("eps", epsilon_of(x.element()));
  const Axes axes = last_axes(a, x);
  if (!a.ok()) return {};
  Results out = {rms_norm(x, beside(weight, x), eps, static_cast<int>(axes.size()))};
  if (a.base() == "_fused_rms_norm" && a.wants(1)) {
    const Tensor w = wide(x);
    out.push_back(rsqrt(mean(w * w, axes, true) + eps));
  }
  return out;
}

Results group_norm_of(Arguments& a) {
  const Tensor x = a.tensor("input");
  const bool native = a.base() == "native_group_norm";
  const int64_t groups = a.integer(native ? "group" : "num_groups");
  const Operand weight = a.optional("weight"), bias = a.optional("bias");
  const double eps = a.real("eps", 1e-5);
  if (a.ok() && (x.rank() < 2 || groups < 1)) a.fail("groups of a tensor that is not [N, C, …]");
  if (!a.ok()) return {};
  Results out = {group_norm(x, groups, beside(weight, x), beside(bias, x), eps)};
  if (!native || (!a.wants(1) && !a.wants(2))) return out;
  const Tensor rows = reshape(wide(x), {x.extent(0), groups, -1});
  out.push_back(like(mean(rows, {2}), x));
  out.push_back(like(rsqrt(variance(rows, {2}) + eps), x));
  return out;
}

// --- batches ---

struct Statistics {
  Operand weight, bias, mean, variance;
  double eps, momentum;
};
Statistics statistics_of(Arguments& a) {
  return {a.optional("weight"),      a.optional("bias"),  a.optional("running_mean"),
          a.optional("running_var"), a.real("eps", 1e-5), a.real("momentum", 0.1)};
}

// By the batch's own mean and variance: those, as mean and rsqrt(variance + eps), are the second and third result, the
// running ones, moved, the fourth and fifth.
Results by_batch(const Tensor& x, const Statistics& by) {
  const Axes axes = all_but(x.rank(), Axes{1});
  const Tensor w = wide(x), center = mean(w, axes), spread = variance(w, axes), inverse = rsqrt(spread + by.eps);
  const Operand weight = beside(by.weight, w), bias = beside(by.bias, w);
  // Of f16 and bf16 with weights of f32 the statistics are f32.
  const Operand& other = by.weight.present() ? by.weight : by.mean;
  const bool mixed = other.present() && other.tensor().element() != x.element();
  const auto saved = [&](const Tensor& each) { return mixed ? each : like(each, x); };
  if (!by.mean.present() || !by.variance.present()) {
    return {like(batch_norm(w, center, spread, weight, bias, by.eps), x), saved(center), saved(inverse)};
  }
  const Tensor m = by.mean.tensor(), v = by.variance.tensor();
  const auto [y, next_mean, next_variance] =
      batch_norm_training(w, like(m, w), like(v, w), weight, bias, by.eps, by.momentum);
  return {like(y, x), saved(center), saved(inverse), like(next_mean, m), like(next_variance, v)};
}

Results by_running(Arguments& a, const Tensor& x, const Statistics& by) {
  if (!by.mean.present() || !by.variance.present()) {
    a.fail("no running statistics, and no training");
    return {};
  }
  const bool mixed = by.mean.tensor().element() != x.element();
  const Tensor in = mixed ? wide(x) : x;
  const Tensor y =
      batch_norm(in, beside(by.mean, in), beside(by.variance, in), beside(by.weight, in), beside(by.bias, in), by.eps);
  const Tensor none = full({0}, 0, mixed ? f32 : x.element());
  return {like(y, x), none, none};
}

Results batch_norm_of(Arguments& a) {
  const Tensor x = a.tensor("input");
  const Statistics by = statistics_of(a);
  const std::string_view name = a.base();
  const bool training =
      name == "_batch_norm_no_update" || a.flag("training", name != "_native_batch_norm_legit_no_training");
  if (a.ok() && x.rank() < 2) a.fail("a tensor without channels");
  if (!a.ok()) return {};
  Results out = training ? by_batch(x, by) : by_running(a, x, by);
  if (name == "_native_batch_norm_legit_functional") {
    if (!training) out.insert(out.end(), {a.tensor("running_mean"), a.tensor("running_var")});
    return out;
  }
  if (out.size() == 5 && name != "_batch_norm_no_update") {
    a.write("running_mean", out[3]);
    a.write("running_var", out[4]);
  }
  out.resize(3);
  return out;
}

// A mean and a variance of each channel of each sample.
Results instance_norm_of(Arguments& a) {
  const Tensor x = a.tensor("input");
  const Statistics by = statistics_of(a);
  if (a.ok() && x.rank() < 3) a.fail("a tensor without spatial axes");
  if (!a.ok()) return {};
  if (!a.flag("use_input_stats", true)) {
    Results out = by_running(a, x, by);
    out.resize(1);
    return out;
  }
  Axes axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const Tensor w = wide(x);
  Tensor y = (w - mean(w, axes, true)) * rsqrt(variance(w, axes, 0, true) + by.eps);
  Shape channels(static_cast<size_t>(x.rank() - 1), Dim(1));
  channels[0] = x.extent(1);
  if (by.weight.present()) y = y * reshape(beside(by.weight, w), channels);
  if (by.bias.present()) y = y + reshape(beside(by.bias, w), channels);
  return {like(y, x)};
}

// --- dropout ---

Results dropped(Arguments& a) {
  const Tensor x = a.tensor("input");
  const double p = a.real("p");
  const bool native = a.base() == "native_dropout";
  const bool train = a.flag("train", true);
  if (!a.ok()) return {};
  if (!train || p == 0) return {x, native ? full(x.shape(), 1, i1) : Tensor()};
  if (p >= 1) return {x * 0, native ? full(x.shape(), 0, i1) : Tensor()};
  const Random random = a.draw(product(x.shape()));
  if (!a.ok()) return {};
  Results out = {dropout(x, p, random.seed, random.offset)};
  if (native && a.wants(1)) {
    const Tensor words = philox(random.seed, random.offset, x.shape());
    out.push_back(words >= static_cast<uint64_t>(p * 0x1p32));
  }
  return out;
}

Results drop_channels(Arguments& a) {
  const Tensor x = a.tensor("input");
  const double p = a.real("p");
  if (!a.ok() || !a.flag("train", true) || p == 0) return {x};
  if (x.rank() < 2) a.fail("a tensor without channels");
  if (!a.ok()) return {};
  Shape channels(static_cast<size_t>(x.rank()), Dim(1));
  channels[0] = x.extent(0);
  channels[1] = x.extent(1);
  const Random random = a.draw(product(channels));
  if (!a.ok()) return {};
  const Tensor kept = uniform(random.seed, random.offset, channels) >= p;
  return {where(kept, x / (1 - p), 0)};
}

constexpr Function kNormFunctions[] = {
    {"_batch_norm_no_update", batch_norm_of},
    {"_fused_rms_norm", rms_norm_of},
    {"_log_softmax", along_axis<log_softmax>},
    {"_native_batch_norm_legit", batch_norm_of, Sharing::kNothing, kWrites},
    {"_native_batch_norm_legit.no_stats", batch_norm_of},
    {"_native_batch_norm_legit_functional", batch_norm_of},
    {"_native_batch_norm_legit_no_training", batch_norm_of},
    {"_safe_softmax", safe_softmax},
    {"_softmax", along_axis<softmax>},
    {"batch_norm", batch_norm_of, Sharing::kNothing, kWrites},
    {"dropout", dropped, Sharing::kPerhaps, kDraws},
    {"feature_dropout", drop_channels, Sharing::kPerhaps, kDraws},
    {"group_norm", group_norm_of},
    {"instance_norm", instance_norm_of},
    {"layer_norm", layer_norm_of},
    {"log_softmax.int", along_axis<log_softmax>},
    {"native_batch_norm", batch_norm_of, Sharing::kNothing, kWrites},
    {"native_dropout", dropped, Sharing::kNothing, kDraws},
    {"native_group_norm", group_norm_of},
    {"native_layer_norm", layer_norm_of},
    {"rms_norm", rms_norm_of},
    {"softmax.int", along_axis<softmax>},
    {"special_softmax", along_axis<softmax>},
    {"special_log_softmax", along_axis<log_softmax>},
};

}  // namespace

std::span<const Function> norm_functions() { return kNormFunctions; }

}  // namespace kiln::graph::aten
