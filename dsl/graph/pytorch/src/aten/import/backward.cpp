// Gradients that ATen has ops for.
#include <cmath>
#include <numbers>

#include "aten/import/functions.h"
#include "aten/import/slices.h"

namespace kiln::graph::aten {
namespace {

// grad_output and one other tensor, in f32 of small floats; the gradient is of grad_output's type.
struct Given {
  Tensor g, x;
  Tensor type;
  Results done(const Tensor& y) const { return {like(y, type)}; }
};
Given given(Arguments& a, std::string_view other = "self") {
  const Tensor g = a.tensor("grad_output"), x = a.tensor(other);
  return {wide(g), wide(x), g};
}

// --- one element at a time ---

Results threshold(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("self");
  const Term bound = a.term("threshold");
  return {a.ok() ? where(binary(operator<=, x, bound), 0, g) : Tensor()};
}
Results sigmoid_gradient(Arguments& a) {
  const Given by = given(a, "output");
  return by.done(by.g * ((1 - by.x) * by.x));
}
Results tanh_gradient(Arguments& a) {
  const Given by = given(a, "output");
  return by.done(by.g * (1 - by.x * by.x));
}
Results silu_gradient(Arguments& a) {
  const Given by = given(a);
  const Tensor s = sigmoid(by.x);
  return by.done(by.g * (s * (1 + by.x * (1 - s))));
}
Results mish_gradient(Arguments& a) {
  const Given by = given(a);
  const Tensor t = tanh(softplus(by.x)), s = sigmoid(by.x);
  return by.done(by.g * (t + by.x * s * (1 - t * t)));
}
Results gelu_gradient(Arguments& a) {
  const Given by = given(a);
  const Tensor& x = by.x;
  if (a.word("approximate", "none") == "tanh") {
    constexpr double kScale = 0.79788456080286535588, kCube = 0.044715;  // sqrt(2/π)
    const Tensor q = x * x, t = tanh(x * (kScale * (1 + kCube * q))), slope = kScale * (1 + 3 * kCube * q);
    return by.done(by.g * (0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * slope)));
  }
  const Tensor p = 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2)));
  const Tensor d = (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2) * exp(-0.5 * (x * x));
  return by.done(by.g * (p + x * d));
}
Results hardsigmoid_gradient(Arguments& a) {
  const Given by = given(a);
  return by.done(where((by.x > -3) & (by.x < 3), by.g / 6, 0));
}
Results hardswish_gradient(Arguments& a) {
  const Given by = given(a);
  return by.done(where(by.x <= -3, 0, where(by.x < 3, by.g * (by.x / 3 + 0.5), by.g)));
}
Results hardtanh_gradient(Arguments& a) {
  const Given by = given(a);
  const double low = a.real("min_val"), high = a.real("max_val");
  return by.done(where((by.x <= low) | (by.x >= high), 0, by.g));
}
Results leaky_gradient(Arguments& a) {
  const Given by = given(a);
  return by.done(where(by.x > 0, by.g, by.g * a.real("negative_slope")));
}
Results elu_gradient(Arguments& a) {
  const Given by = given(a, "self_or_result");
  const double alpha = a.real("alpha"), scale = a.real("scale"), inner = a.real("input_scale");
  const bool result = a.flag("is_result", false);
  const Tensor below =
      result ? by.g * inner * (by.x + alpha * scale) : by.g * (inner * alpha * scale) * exp(by.x * inner);
  return by.done(where(by.x <= 0, below, by.g * scale));
}
Results softplus_gradient(Arguments& a) {
  const Given by = given(a);
  const double beta = a.real("beta"), threshold = a.real("threshold");
  return by.done(where(by.x * beta > threshold, by.g, by.g * sigmoid(by.x * beta)));
}
Results log_sigmoid_gradient(Arguments& a) {
  const Given by = given(a);
  return by.done(by.g * sigmoid(-by.x));
}
Results hardshrink_gradient(Arguments& a) {
  const Tensor g = a.tensor(a.has("grad_out") ? "grad_out" : "grad_output"), x = a.tensor("self");
  const double bound = a.real("lambd");
  return {where((x >= -bound) & (x <= bound), 0, g)};
}

// --- softmax, dropout ---

Results softmax_gradient(Arguments& a) {
  const Given by = given(a, "output");
  const int at = a.axis("dim", by.x.rank());
  const ElementType type = a.element("input_dtype", by.type.element());
  if (!a.ok()) return {};
  const Axes over = by.x.rank() == 0 ? Axes{} : Axes{at};
  const Tensor p = by.g * by.x;
  return {as(p - by.x * sum(p, over, true), type)};
}
Results log_softmax_gradient(Arguments& a) {
  const Given by = given(a, "output");
  const int at = a.axis("dim", by.x.rank());
  const ElementType type = a.element("input_dtype", by.type.element());
  if (!a.ok()) return {};
  const Axes over = by.x.rank() == 0 ? Axes{} : Axes{at};
  return {as(by.g - exp(by.x) * sum(by.g, over, true), type)};
}
Results dropout_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), mask = a.tensor("mask");
  const double scale = a.real("scale");
  return {a.ok() ? where(truth(mask), g * scale, 0) : Tensor()};
}

// --- losses ---

// What a mean divides by.
Tensor over_count(const Tensor& g, int64_t reduction, const Tensor& x) {
  return reduction == 1 ? g / extent(product(x.shape()), g.element()) : g;
}
Results mean_square_gradient(Arguments& a) {
  const Given by = given(a);
  const Tensor target = wide(a.tensor("target"));
  const int64_t reduction = a.integer("reduction");
  return a.ok() ? by.done(over_count(by.g, reduction, by.x) * (2 * (by.x - target))) : Results();
}
Results smooth_gradient(Arguments& a) {
  const Given by = given(a);
  const bool huber = a.base() == "huber_loss_backward";
  const Tensor d = by.x - wide(a.tensor("target"));
  const double bound = a.real(huber ? "delta" : "beta");
  const int64_t reduction = a.integer("reduction");
  if (!a.ok()) return {};
  const Tensor slope = huber ? clamp(d, -bound, bound) : bound == 0 ? sign(d) : clamp(d / bound, -1, 1);
  return by.done(over_count(by.g, reduction, by.x) * slope);
}
Results entropy_gradient(Arguments& a) {
  const Given by = given(a);
  const Tensor target = wide(a.tensor("target"));
  const Operand weight = a.optional("weight");
  const int64_t reduction = a.integer("reduction", 1);
  if (!a.ok()) return {};
  Tensor slope = (by.x - target) / max((1 - by.x) * by.x, 1e-12);
  if (weight.present()) slope = slope * weight;
  return by.done(over_count(by.g, reduction, by.x) * slope);
}

// -grad·weight at the class of each row, 0 elsewhere.
Results likelihood_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("self"), target = a.tensor("target");
  const Operand weight = a.optional("weight");
  const int64_t reduction = a.integer("reduction"), ignore = a.integer("ignore_index");
  const Tensor total = a.tensor("total_weight");
  const bool fits = target.rank() == x.rank() - 1 || (x.rank() == 1 && target.rank() == 1);
  if (a.ok() && (x.rank() < 1 || !fits)) a.fail("classes and targets of other axes");
  if (!a.ok()) return {};
  const int axis = x.rank() == 1 ? 0 : 1;
  const Tensor seen = target != ignore, place = where(seen, target, 0);
  const Operand one =
      weight.present()
          ? Operand(like(reshape(index(weight, {reshape(place, {product(place.shape())})}, {0}), place.shape()), x))
          : Operand(full(place.shape(), 1, x.element()));
  const Tensor scaled = reduction == 1 ? g / like(total, g) : g;
  const Tensor values = where(seen, -(scaled * one), 0);
  const Shape rows = inserted(place.shape(), x.rank() == 1 && place.rank() == 0 ? 0 : axis, 1);
  return {scatter(full(x.shape(), 0, x.element()), reshape(place, rows), reshape(like(values, x), rows), axis)};
}

// --- norms ---

// g at x = (x - mean)·rstd, over the axes of one mean.
Tensor normalised_gradient(const Tensor& g, const Tensor& x, const Tensor& rstd, const Axes& axes) {
  return rstd * (g - mean(g, axes, true) - x * mean(g * x, axes, true));
}

Results layer_norm_gradient(Arguments& a) {
  const Tensor go = a.tensor("grad_out"), input = a.tensor("input");
  const Tensor center = wide(a.tensor("mean")), rstd = wide(a.tensor("rstd"));
  const Operand weight = a.optional("weight");
  const int count = static_cast<int>(a.shape("normalized_shape").size());
  const auto mask = a.flags("output_mask", {true, true, true});
  if (!a.ok() || count > input.rank()) return {};
  const int rank = input.rank();
  Axes axes, others;
  for (int i = 0; i < rank; ++i) (i < rank - count ? others : axes).push_back(i);
  const Tensor x = (wide(input) - center) * rstd, g = wide(go);
  const Tensor weighted = weight.present() ? g * wide(weight.tensor()) : g;
  Results out(3);
  const Tensor type = weight.present() ? weight.tensor() : input;
  const auto total = [&](const Tensor& each) { return like(others.empty() ? each : sum(each, others), type); };
  if (mask[0]) out[0] = like(normalised_gradient(weighted, x, rstd, axes), input);
  if (mask[1] && weight.present()) out[1] = total(g * x);
  if (mask[2]) out[2] = total(g);
  return out;
}

Results group_norm_gradient(Arguments& a) {
  const Tensor go = a.tensor("grad_out"), input = a.tensor("input");
  const Operand weight = a.optional("weight");
  const Dim n = a.dim("N"), c = a.dim("C"), s = a.dim("HxW");
  const int64_t groups = a.integer("group");
  const auto mask = a.flags("output_mask", {true, true, true});
  if (a.ok() && groups < 1) a.fail("no groups");
  if (!a.ok()) return {};
  const Shape rows = {n, groups, c / groups * s}, channels = {n, c, s}, one = {n, groups, 1};
  const Tensor center = reshape(wide(a.tensor("mean")), one), rstd = reshape(wide(a.tensor("rstd")), one);
  const Tensor x = (reshape(wide(input), rows) - center) * rstd, g = reshape(wide(go), channels);
  const Tensor weighted = weight.present() ? g * reshape(wide(weight.tensor()), {c, 1}) : g;
  Results out(3);
  if (mask[0]) out[0] = like(reshape(normalised_gradient(reshape(weighted, rows), x, rstd, {2}), input.shape()), input);
  if (mask[1]) out[1] = like(sum(g * reshape(x, channels), {0, 2}), input);
  if (mask[2]) out[2] = like(sum(g, {0, 2}), input);
  return out;
}

Results batch_norm_gradient(Arguments& a) {
  const Tensor go = a.tensor("grad_out"), input = a.tensor("input");
  const Operand weight = a.optional("weight");
  const bool train = a.flag("train");
  const double eps = a.real("eps", 1e-5);
  const auto mask = a.flags("output_mask", {true, true, true});
  if (a.ok() && input.rank() < 2) a.fail("a tensor without channels");
  if (!a.ok()) return {};
  Shape channels(static_cast<size_t>(input.rank() - 1), Dim(1));
  channels[0] = input.extent(1);
  const auto spread = [&](const Tensor& each) { return reshape(wide(each), channels); };
  const Tensor center = spread(a.tensor(train ? "save_mean" : "running_mean"));
  const Tensor rstd = train ? spread(a.tensor("save_invstd")) : rsqrt(spread(a.tensor("running_var")) + eps);
  const Axes axes = all_but(input.rank(), Axes{1});
  const Tensor x = (wide(input) - center) * rstd, g = wide(go);
  const Tensor weighted = weight.present() ? g * spread(weight.tensor()) : g;
  const Tensor type = weight.present() ? weight.tensor() : input;
  Results out(3);
  if (mask[0]) out[0] = like(train ? normalised_gradient(weighted, x, rstd, axes) : weighted * rstd, input);
  if (mask[1]) out[1] = like(sum(g * x, axes), type);
  if (mask[2]) out[2] = like(sum(g, axes), type);
  return out;
}

// --- products ---

Results convolution_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("input"), w = a.tensor("weight");
  const auto mask = a.flags("output_mask", {true, true, true});
  if (a.ok() && (w.rank() < 3 || x.rank() != w.rank() || g.rank() != w.rank())) a.fail("tensors of other axes");
  if (!a.ok()) return {};
  const auto axes = static_cast<size_t>(w.rank() - 2);
  const ConvOptions by{a.repeated("stride", axes), a.repeated("padding", axes), a.repeated("padding", axes),
                       a.repeated("dilation", axes), a.integer("groups")};
  const bool transposed = a.flag("transposed", false);
  const auto spatial = [](const Tensor& each) {
    const Shape shape = each.shape();
    return Shape(shape.begin() + 2, shape.end());
  };
  if (!a.ok()) return {};
  Results out(3);
  if (mask[0]) out[0] = transposed ? conv(g, w, by) : conv_input(g, w, spatial(x), by);
  if (mask[1]) out[1] = transposed ? conv_weight(g, x, spatial(w), by) : conv_weight(x, g, spatial(w), by);
  if (mask[2]) out[2] = sum(g, all_but(g.rank(), Axes{1}));
  return out;
}

// --- views and places ---

Results slice_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output");
  const Shape sizes = a.shape("input_sizes");
  const int at = a.axis("dim", static_cast<int>(sizes.size()));
  if (!a.ok() || sizes.empty()) return {};
  const SliceBounds bounds = slice_bounds(a, sizes[static_cast<size_t>(at)]);
  if (!a.ok()) return {};
  std::vector<Index> place(static_cast<size_t>(at), Index(all));
  const Dim count = g.extent(at), extent = sizes[static_cast<size_t>(at)];
  if (known(count) == 0) return {full(sizes, 0, g.element())};
  Shape low(sizes.size(), Dim(0)), high = low;
  Ints inner(sizes.size(), 0);
  low[static_cast<size_t>(at)] = bounds.start;
  high[static_cast<size_t>(at)] = extent - bounds.start - 1 - (count - 1) * bounds.step;
  inner[static_cast<size_t>(at)] = bounds.step - 1;
  return {pad(g, low, high, 0, inner)};
}

Results select_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output");
  const Shape sizes = a.shape("input_sizes");
  const int at = a.axis("dim", static_cast<int>(sizes.size()));
  if (!a.ok() || sizes.empty()) return {};
  const Dim extent = sizes[static_cast<size_t>(at)], place = counted_from_end(a.dim("index"), extent);
  Shape low(sizes.size(), Dim(0)), high = low;
  low[static_cast<size_t>(at)] = place;
  high[static_cast<size_t>(at)] = extent - place - 1;
  return {pad(reshape(g, inserted(g.shape(), at, 1)), low, high, 0)};
}

Results diagonal_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output");
  const Shape sizes = a.shape("input_sizes");
  const int rank = static_cast<int>(sizes.size());
  const int64_t offset = a.integer("offset");
  const int one = a.axis("dim1", rank), other = a.axis("dim2", rank);
  if (!a.ok()) return {};
  const Tensor line = iota(i64, {g.extent(-1)}, 0);
  const Tensor down = offset < 0 ? line + -offset : line, right = offset > 0 ? line + offset : line;
  return {index_put(full(sizes, 0, g.element()), {down, right}, {one, other}, move_axis(g, g.rank() - 1, 0))};
}

Results unfold_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_in");
  const Shape sizes = a.shape("input_sizes");
  const int rank = static_cast<int>(sizes.size()), at = a.axis("dim", rank);
  const int64_t size = a.integer("size"), step = a.integer("step");
  if (!a.ok() || rank == 0) return {};
  const Shape windows = {g.extent(at), size};
  const Tensor places = iota(i64, windows, 0) * step + iota(i64, windows, 1);
  const Tensor front = move_axis(move_axis(g, at, 0), rank, 1);
  return {index_put(full(sizes, 0, g.element()), {places}, {at}, front, ScatterKind::kAdd)};
}

Results pad_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("self");
  const Ints pairs = a.ints("padding");
  const bool reflects = a.base().starts_with("reflection");
  if (!a.ok() || pairs.size() % 2 != 0 || pairs.size() / 2 > static_cast<size_t>(x.rank())) return {};
  Tensor y = g;
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    const int axis = x.rank() - 1 - static_cast<int>(i);
    const Dim n = x.extent(axis);
    Tensor place = iota(i64, {n + (pairs[2 * i] + pairs[2 * i + 1])}, 0) - pairs[2 * i];
    place = reflects ? (n - 1) - abs((n - 1) - abs(place)) : min(max(place, 0), n - 1);
    const Tensor zero = full(with(y.shape(), axis, n), 0, y.element());
    y = index_put(zero, {place}, {axis}, move_axis(y, axis, 0), ScatterKind::kAdd);
  }
  return {y};
}

Results embedding_gradient(Arguments& a) {
  const Tensor given_g = a.tensor("grad_output"), ids = a.tensor("indices");
  const Dim rows = a.dim("num_weights");
  const int64_t padding = a.integer("padding_idx", -1);
  const bool by_count = a.flag("scale_grad_by_freq", false);
  if (!a.ok()) return {};
  const Shape beside = inserted(ids.shape(), ids.rank(), 1);
  Tensor g = given_g;
  if (by_count) {
    const Tensor counts = histogram(reshape(ids, {product(ids.shape())}), rows);
    g = g / reshape(like(index(counts, {ids}, {0}), g), beside);
  }
  if (padding >= 0) g = where(reshape(ids != padding, beside), g, 0);
  return {index_put(full({rows, g.extent(-1)}, 0, g.element()), {ids}, {0}, g, ScatterKind::kAdd)};
}

// The product of each row with the gradient of its bag.
Results bag_weights_gradient(Arguments& a) {
  const Tensor g = a.tensor("grad"), table = a.tensor("weight"), ids = a.tensor("indices");
  const Tensor bag = a.tensor("offset2bag");
  const int64_t padding = a.integer("padding_idx", -1);
  if (!a.ok()) return {};
  const Tensor y = sum(index(table, {ids}, {0}) * index(g, {bag}, {0}), {1});
  return {padding >= 0 ? where(ids == padding, 0, y) : y};
}

constexpr Function kBackwardFunctions[] = {
    {"_embedding_bag_per_sample_weights_backward", bag_weights_gradient},
    {"_log_softmax_backward_data", log_softmax_gradient},
    {"_softmax_backward_data", softmax_gradient},
    {"binary_cross_entropy_backward", entropy_gradient},
    {"convolution_backward", convolution_gradient},
    {"diagonal_backward", diagonal_gradient},
    {"elu_backward", elu_gradient},
    {"embedding_dense_backward", embedding_gradient},
    {"gelu_backward", gelu_gradient},
    {"hardshrink_backward", hardshrink_gradient},
    {"hardsigmoid_backward", hardsigmoid_gradient},
    {"hardswish_backward", hardswish_gradient},
    {"hardtanh_backward", hardtanh_gradient},
    {"huber_loss_backward", smooth_gradient},
    {"leaky_relu_backward", leaky_gradient},
    {"log_sigmoid_backward", log_sigmoid_gradient},
    {"mish_backward", mish_gradient},
    {"mse_loss_backward", mean_square_gradient},
    {"native_batch_norm_backward", batch_norm_gradient},
    {"native_dropout_backward", dropout_gradient},
    {"native_group_norm_backward", group_norm_gradient},
    {"native_layer_norm_backward", layer_norm_gradient},
    {"nll_loss2d_backward", likelihood_gradient},
    {"nll_loss_backward", likelihood_gradient},
    {"reflection_pad1d_backward", pad_gradient},
    {"reflection_pad2d_backward", pad_gradient},
    {"reflection_pad3d_backward", pad_gradient},
    {"replication_pad1d_backward", pad_gradient},
    {"replication_pad2d_backward", pad_gradient},
    {"replication_pad3d_backward", pad_gradient},
    {"select_backward", select_gradient},
    {"sigmoid_backward", sigmoid_gradient},
    {"silu_backward", silu_gradient},
    {"slice_backward", slice_gradient},
    {"smooth_l1_loss_backward", smooth_gradient},
    {"softplus_backward", softplus_gradient},
    {"softshrink_backward", hardshrink_gradient},
    {"tanh_backward", tanh_gradient},
    {"threshold_backward", threshold},
    {"unfold_backward", unfold_gradient},
};

}  // namespace

std::span<const Function> backward_functions() { return kBackwardFunctions; }

}  // namespace kiln::graph::aten
