// Reductions, scans and orders.
#include <cmath>
#include <limits>

#include "aten/import/functions.h"
#include "kiln/graph/control.h"

namespace kiln::graph::aten {
namespace {

// `dim` (or none: all axes) and `keepdim`.
struct Over {
  Axes axes;
  bool keep;
  bool none;  // an axis of a scalar: nothing to combine
};
Over over(Arguments& a, const Tensor& x) {
  Over out{a.axes("dim", x.rank()), a.flag("keepdim", false), x.rank() == 0};
  return out;
}

Tensor reduced(const Tensor& x, ReduceKind kind, const Over& over) {
  return over.none ? x : reduce(x, kind, over.axes, over.keep);
}

// Ints and bools add up in i64.
Tensor summand(Arguments& a, const Tensor& x) {
  if (a.has("dtype")) return as(x, a.element("dtype", x.element()));
  return is_float(x) ? x : as(x, i64);
}

template <ReduceKind kind>
Results total(Arguments& a) {
  const Tensor x = summand(a, a.tensor("self"));
  const Over by = over(a, x);
  return {a.ok() ? reduced(x, kind, by) : Tensor()};
}

template <ReduceKind kind>
Results running_total(Arguments& a) {
  const Tensor x = summand(a, a.tensor("self"));
  const int at = a.axis("dim", x.rank());
  return {x.rank() == 0 || !a.ok() ? x : scan(x, kind, at)};
}

Results average(Arguments& a) {
  const Tensor given = a.tensor("self"), x = as(given, a.element("dtype", given.element()));
  if (a.ok() && !is_float(x)) a.fail("a mean of ints; give a `dtype` of floats");
  const Over by = over(a, x);
  if (!a.ok() || by.none) return {x};
  if (a.base() != "nanmean") return {mean(x, by.axes, by.keep)};
  const Tensor w = wide(x), number = as(~isnan(w), w.element());
  return {like(sum(where(isnan(w), 0, w), by.axes, by.keep) / sum(number, by.axes, by.keep), x)};
}

Results total_of_numbers(Arguments& a) {
  const Tensor x = summand(a, a.tensor("self"));
  const Over by = over(a, x);
  if (!a.ok()) return {};
  return {reduced(is_float(x) ? where(isnan(x), 0, x) : x, ReduceKind::kSum, by)};
}

// `dim` of any.dims may be empty, which is no axis then; u8 stays u8.
template <ReduceKind kind>
Results truth_of(Arguments& a) {
  const Tensor given = a.tensor("self"), x = truth(given);
  const Over by = over(a, x);
  if (!a.ok()) return {};
  const bool no_axis = a.has("dim") && a.shape("dim").empty();
  const Tensor y = no_axis ? x : reduced(x, kind, by);
  return {given.element() == u8 ? as(y, u8) : y};
}

template <ReduceKind kind, ReduceKind on_bools>
Results extreme(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Over by = over(a, x);
  return {a.ok() ? reduced(x, x.element() == i1 ? on_bools : kind, by) : Tensor()};
}

// The place along an axis, or in row-major order where none is named.
Tensor place_of(Arguments& a, const Tensor& given, ArgKind kind) {
  const bool keep = a.flag("keepdim", false), flat = !a.has("dim");
  const Tensor x = given.element() == i1 ? as(given, u8) : given;
  if (x.rank() == 0) return full({}, 0, i64);
  const Tensor from = flat ? reshape(x, {product(x.shape())}) : x;
  const int at = a.axis("dim", from.rank(), 0);
  if (!a.ok()) return {};
  const Tensor y = kind == ArgKind::kMax ? argmax(from, at, keep && !flat) : argmin(from, at, keep && !flat);
  return flat && keep ? reshape(y, Shape(static_cast<size_t>(x.rank()), Dim(1))) : y;
}

template <ArgKind kind>
Results place(Arguments& a) {
  return {place_of(a, a.tensor("self"), kind)};
}

template <ArgKind kind>
Results extreme_and_place(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool most = kind == ArgKind::kMax;
  const ReduceKind by =
      x.element() == i1 ? (most ? ReduceKind::kOr : ReduceKind::kAnd) : (most ? ReduceKind::kMax : ReduceKind::kMin);
  const Over axis{{a.axis("dim", x.rank())}, a.flag("keepdim", false), x.rank() == 0};
  if (!a.ok()) return {};
  return {reduced(x, by, axis), a.wants(1) ? place_of(a, x, kind) : Tensor()};
}

Results ends(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool flags = x.element() == i1;
  Over by{all_axes(x.rank()), a.flag("keepdim", false), x.rank() == 0};
  if (a.has("dim")) by.axes = {a.axis("dim", x.rank())};
  if (!a.ok()) return {};
  return {reduced(x, flags ? ReduceKind::kAnd : ReduceKind::kMin, by),
          reduced(x, flags ? ReduceKind::kOr : ReduceKind::kMax, by)};
}

Results count_nonzero_of(Arguments& a) {
  const Tensor x = as(truth(a.tensor("self")), i64);
  const Over by = over(a, x);
  return {a.ok() ? reduced(x, ReduceKind::kSum, by) : Tensor()};
}

// --- moments ---

// The mean square distance from the mean over count - correction, which may be no whole number.
Tensor spread_of(Arguments& a, const Tensor& x, const Over& by) {
  const double correction = a.has("unbiased") ? (a.flag("unbiased") ? 1 : 0) : a.real("correction", 1);
  const bool whole = correction == std::floor(correction) && correction >= 0;
  if (!by.none && whole) return variance(x, by.axes, static_cast<int>(correction), by.keep);
  Dim count = 1;
  for (const int axis : by.axes) count = count * x.extent(axis);
  const Tensor w = wide(x), d = by.none ? w - w : w - mean(w, by.axes, true);
  const Tensor squares = reduced(d * d, ReduceKind::kSum, by);
  const Tensor over = max(extent(count, w.element()) - correction, 0);
  return like(squares / over, x);
}

template <bool root, bool with_mean>
Results moments(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Over by = over(a, x);
  if (a.ok() && !is_float(x)) a.fail("a variance of ints");
  if (!a.ok()) return {};
  const Tensor v = spread_of(a, x, by), y = root ? sqrt(v) : v;
  if (!with_mean) return {y};
  return {y, !a.wants(1) ? Tensor() : by.none ? x : mean(x, by.axes, by.keep)};
}

Results log_sum_exp(Arguments& a) {
  const Tensor given = a.tensor("self"), x = as(given, as_real(given.element()));
  const Over by = over(a, x);
  return {a.ok() && !by.none ? logsumexp(x, by.axes, by.keep) : x};
}

// --- norms ---

Tensor norm_of(const Tensor& x, double p, const Over& by) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor m = abs(x);
  if (p == 0) return reduced(as(x != 0, x.element()), ReduceKind::kSum, by);
  if (p == 1) return reduced(m, ReduceKind::kSum, by);
  if (p == 2) return sqrt(reduced(x * x, ReduceKind::kSum, by));
  if (p == kInfinity) return reduced(m, ReduceKind::kMax, by);
  if (p == -kInfinity) return reduced(m, ReduceKind::kMin, by);
  return pow(reduced(pow(m, p), ReduceKind::kSum, by), 1 / p);
}

Results norm(Arguments& a) {
  const Tensor given = a.tensor("self");
  const ElementType type = a.element("dtype", as_real(given.element()));
  const Tensor x = wide(as(given, type));
  const double p = a.real(a.base() == "linalg_vector_norm" ? "ord" : "p", 2);
  const Over by = over(a, x);
  return {a.ok() ? as(norm_of(x, p, by), type) : Tensor()};
}

// --- scans with places ---

// The later of equal ones; NaN is greatest and least.
Results running_extreme(Arguments& a) {
  const Tensor given = a.tensor("self"), x = given.element() == i1 ? as(given, u8) : given;
  const int at = a.axis("dim", x.rank());
  const bool most = a.base() == "cummax";
  if (!a.ok()) return {};
  if (x.rank() == 0) return {given, full({}, 0, i64)};
  const bool floats = is_float(x);
  const Combine later = [&](Tensors left, Tensors right) -> Tensors {
    Tensor taken = most ? right[0] >= left[0] : right[0] <= left[0];
    if (floats) taken = isnan(right[0]) | (taken & ~isnan(left[0]));
    return {where(taken, right[0], left[0]), where(taken, right[1], left[1])};
  };
  const Tensors out = scan({x, iota(i64, x.shape(), at)}, at, later);
  if (out.size() != 2) return {};
  return {like(out[0], given), out[1]};
}

// In f64, as PyTorch adds it up: gradients are differences of it.
Results running_log_sum_exp(Arguments& a) {
  const Tensor given = a.tensor("self"), x = as(given, f64);
  const int at = a.axis("dim", x.rank());
  if (!a.ok() || x.rank() == 0) return {given};
  const Combine together = [](Tensors left, Tensors right) -> Tensors {
    const Tensor p = left[0], q = right[0], d = where(p == q, 0, abs(p - q));
    return {max(p, q) + log1p(exp(-d))};
  };
  const Tensors out = scan({x}, at, together);
  return {out.empty() ? Tensor() : like(out[0], given)};
}

// --- orders ---

Results sorted(Arguments& a) {
  const Tensor given = a.tensor("self"), x = given.element() == i1 ? as(given, u8) : given;
  const bool descending = a.flag("descending", false);
  const int at = a.axis("dim", x.rank(), -1);
  if (!a.ok()) return {};
  if (x.rank() == 0) return {given, full({}, 0, i64)};
  const auto [values, places] = sort(x, at, descending);
  if (a.base() == "argsort") return {places};
  return {like(values, given), places};
}

Results greatest(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Dim k = a.dim("k");
  const int at = a.axis("dim", x.rank(), -1);
  const bool largest = a.flag("largest", true);
  if (!a.ok()) return {};
  if (x.rank() == 0) return {x, full({}, 0, i64)};
  const auto [values, places] = topk(x, k, at, largest);
  return {values, places};
}

// Of an even number the lower one of the middle.
Results middle(Arguments& a) {
  const Tensor given = a.tensor("self");
  const bool counts = a.base() == "kthvalue", flat = !a.has("dim") && !counts;
  const Tensor x = flat || given.rank() == 0 ? reshape(given, {product(given.shape())}) : given;
  const int at = a.axis("dim", x.rank(), flat ? 0 : -1);
  const bool keep = a.flag("keepdim", false);
  const Dim k = counts ? a.dim("k") - 1 : (x.extent(at) - 1) / 2;
  if (!a.ok()) return {};
  const auto [values, places] = sort(x, at);
  const auto picked = [&](const Tensor& from) {
    const Tensor part = slice(from, at, k, k + 1);
    if (given.rank() == 0) return reshape(part, {});
    return keep ? part : reshape(part, without(part.shape(), at));
  };
  Tensor value = picked(values), place = picked(places);
  if (is_float(x) && !counts) {  // NaN is last, and is the median where it is there
    const Tensor any_nan = any(isnan(x), {at}, keep && given.rank() > 0);
    value = where(given.rank() == 0 ? reshape(any_nan, {}) : any_nan, std::numeric_limits<double>::quiet_NaN(), value);
  }
  return {value, place};
}

constexpr Function kReduceFunctions[] = {
    {"all", truth_of<ReduceKind::kAnd>},
    {"all.dim", truth_of<ReduceKind::kAnd>},
    {"all.dims", truth_of<ReduceKind::kAnd>},
    {"amax", extreme<ReduceKind::kMax, ReduceKind::kOr>},
    {"amin", extreme<ReduceKind::kMin, ReduceKind::kAnd>},
    {"aminmax", ends},
    {"any", truth_of<ReduceKind::kOr>},
    {"any.dim", truth_of<ReduceKind::kOr>},
    {"any.dims", truth_of<ReduceKind::kOr>},
    {"argmax", place<ArgKind::kMax>},
    {"argmin", place<ArgKind::kMin>},
    {"argsort", sorted},
    {"argsort.stable", sorted},
    {"count_nonzero", count_nonzero_of},
    {"count_nonzero.dim_IntList", count_nonzero_of},
    {"cummax", running_extreme},
    {"cummin", running_extreme},
    {"cumprod", running_total<ReduceKind::kProd>},
    {"cumsum", running_total<ReduceKind::kSum>},
    {"kthvalue", middle},
    {"linalg_vector_norm", norm},
    {"logcumsumexp", running_log_sum_exp},
    {"logsumexp", log_sum_exp},
    {"max", extreme<ReduceKind::kMax, ReduceKind::kOr>},
    {"max.dim", extreme_and_place<ArgKind::kMax>},
    {"mean", average},
    {"mean.dim", average},
    {"median", middle},
    {"median.dim", middle},
    {"min", extreme<ReduceKind::kMin, ReduceKind::kAnd>},
    {"min.dim", extreme_and_place<ArgKind::kMin>},
    {"nanmean", average},
    {"nansum", total_of_numbers},
    {"norm.Scalar", norm},
    {"norm.ScalarOpt_dim", norm},
    {"norm.ScalarOpt_dim_dtype", norm},
    {"prod", total<ReduceKind::kProd>},
    {"prod.dim_int", total<ReduceKind::kProd>},
    {"sort", sorted},
    {"sort.stable", sorted},
    {"std", moments<true, false>},
    {"std.correction", moments<true, false>},
    {"std.dim", moments<true, false>},
    {"std_mean.correction", moments<true, true>},
    {"std_mean.dim", moments<true, true>},
    {"sum", total<ReduceKind::kSum>},
    {"sum.dim_IntList", total<ReduceKind::kSum>},
    {"topk", greatest},
    {"var", moments<false, false>},
    {"var.correction", moments<false, false>},
    {"var.dim", moments<false, false>},
    {"var_mean.correction", moments<false, true>},
    {"var_mean.dim", moments<false, true>},
};

}  // namespace

std::span<const Function> reduce_functions() { return kReduceFunctions; }

}  // namespace kiln::graph::aten
