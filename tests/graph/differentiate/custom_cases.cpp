#include "differentiate/differences.h"

namespace kiln::graph::test {
namespace {

using Combiner = Tensors (*)(Tensors, Tensors);

// All associative, and only the first two commute.
Tensors product(Tensors l, Tensors r) { return {l[0] * r[0]}; }
// log(e^l + e^r) as the greatest and the sum of what is left of it.
Tensors log_sum(Tensors l, Tensors r) {
  const Tensor top = max(l[0], r[0]);
  return {top, l[1] * exp(l[0] - top) + r[1] * exp(r[0] - top)};
}
// x → a·x + b, one after the other.
Tensors affine(Tensors l, Tensors r) { return {l[0] * r[0], l[1] * r[0] + r[1]}; }
// The element of the greatest key, with its place.
Tensors greatest(Tensors l, Tensors r) {
  const Tensor left = l[0] >= r[0];
  return {where(left, l[0], r[0]), where(left, l[1], r[1]), where(left, l[2], r[2])};
}
// No op on one element at a time: bodies inside.
Tensors affine_by_bodies(Tensors l, Tensors r) {
  return cond(
      l[0] > 1000, [&] { return l; },
      [&] {
        return call("part", {l[0], l[1], r[0], r[1]}, [](Tensors t) { return affine({t[0], t[1]}, {t[2], t[3]}); });
      });
}
// With numbers of its own.
Tensors sum_and_product(Tensors l, Tensors r) { return {l[0] + r[0] + 0.5 * extent(case_m(), f64) * (l[0] * r[0])}; }
// What is on the left is dropped.
Tensors last(Tensors, Tensors r) { return {sin(r[0]) * 0 + r[0]}; }

// Reductions of x [n, 2, m] and scans of it, of as many inputs as the function combines.
void add_cases(std::vector<GradientCase>& out, const std::string& name, size_t count, Combiner combine, double low = -2,
               double high = 2) {
  const auto inputs = [&](bool inits) {
    std::vector<InputSpec> all;
    for (size_t i = 0; i < count; ++i) all.push_back(input("x" + std::to_string(i), f64, {case_n(), 2, case_m()}));
    for (size_t i = 0; inits && i < count; ++i) all.push_back(input("init" + std::to_string(i), f64, {}));
    return all;
  };
  const auto split = [count](const Tensors& all, size_t which) {
    return Tensors(all.begin() + static_cast<ptrdiff_t>(which * count),
                   all.begin() + static_cast<ptrdiff_t>((which + 1) * count));
  };
  const std::pair<std::vector<int>, bool> axes[] = {{{0, 2}, false}, {{1}, true}, {{0, 1, 2}, false}};
  for (const auto& [over, keep] : axes) {
    const std::string where = over.size() == 1 ? " over one" : over.size() == 2 ? " over two" : " over all";
    out.push_back(
        {"reduce by " + name + where, inputs(true),
         [=, over = over, keep = keep](Tensors x) { return reduce(split(x, 0), split(x, 1), over, combine, keep); },
         low, high});
  }
  for (const bool reverse : {false, true}) {
    for (const int axis : {0, 1}) {
      out.push_back({"scan by " + name + (reverse ? " reverse" : "") + " along " + std::to_string(axis), inputs(false),
                     [=](Tensors x) { return scan(x, axis, combine, reverse); }, low, high});
    }
  }
}

}  // namespace

std::vector<GradientCase> custom_cases() {
  std::vector<GradientCase> out;
  add_cases(out, "product", 1, product);
  add_cases(out, "log of sums", 2, log_sum, 0.5, 2);
  add_cases(out, "affine maps", 2, affine);
  add_cases(out, "affine maps by bodies", 2, affine_by_bodies);
  add_cases(out, "sum and product", 1, sum_and_product);
  add_cases(out, "last", 1, last);
  // Ints beside floats: what is carried along, and a place that a float depends on.
  out.push_back(
      {"reduce by greatest",
       {input("x", f64, {case_n(), case_m()}), input("y", f64, {case_n(), case_m()}), input("least", f64, {})},
       [](Tensors x) {
         const Tensor places = reshape(arange(case_n() * case_m(), i32), {case_n(), case_m()});
         return reduce({x[0], sin(x[1]), places}, {x[2] - 100, x[2] * x[2], full({}, -1, i32)}, {1}, greatest);
       },
       -2,
       2,
       0.1});
  out.push_back({"scan by greatest",
                 {input("x", f64, {case_n(), case_m()}), input("y", f64, {case_n(), case_m()})},
                 [](Tensors x) {
                   const Tensor places = reshape(arange(case_n() * case_m(), i32), {case_n(), case_m()});
                   return scan({x[0], sin(x[1]), places}, 0, greatest);
                 },
                 -2,
                 2,
                 0.1});
  return out;
}

}  // namespace kiln::graph::test
