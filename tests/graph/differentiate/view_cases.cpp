#include "differentiate/differences.h"

namespace kiln::graph::test {

std::vector<GradientCase> view_cases() {
  const Dim n = case_n(), m = case_m();
  return {
      {"reshape", {input("x", f64, {n, 2 * m})}, [=](Tensors x) { return Tensors{sin(reshape(x[0], {2 * n, m}))}; }},
      {"permute", {input("x", f64, {n, m, 3})}, [](Tensors x) { return Tensors{sin(permute(x[0], {2, 0, 1}))}; }},
      {"broadcast",
       {input("x", f64, {n, 1, 2}), input("z", f64, {m})},
       [=](Tensors x) { return Tensors{sin(broadcast_to(x[0], {3, n, m, 2}))}; }},
      {"slice", {input("x", f64, {n + 3, m})}, [=](Tensors x) { return Tensors{sin(slice(x[0], 0, 1, n + 2))}; }},
      {"slice with steps",
       {input("x", f64, {7, 9, 5})},
       [](Tensors x) { return Tensors{sin(x[0](range(1, 7, 2), range(0, 8, 3), range(1, 4, 4)))}; }},
      {"slice with a step of an unknown extent",
       {input("x", f64, {n, m + 4})},
       [=](Tensors x) { return Tensors{sin(x[0](range(0, n, 2), range(1, m + 3, 3)))}; }},
      {"slice with a step of a multiple",
       {input("x", f64, {2 * n, m})},
       [=](Tensors x) { return Tensors{x[0](range(0, 2 * n, 2), all) * x[0](range(1, 2 * n, 2), all)}; }},
      {"reverse", {input("x", f64, {n, m})}, [](Tensors x) { return Tensors{sin(reverse(x[0], {0, 1})) * x[0]}; }},
      {"pad",
       {input("x", f64, {n, m}), input("v", f64, {})},
       [](Tensors x) { return Tensors{sin(pad(x[0], {1, 0}, {0, 2}, x[1]))}; }},
      {"pad between",
       {input("x", f64, {n, 3}), input("v", f64, {})},
       [](Tensors x) { return Tensors{sin(pad(x[0], {1, 2}, {0, 1}, x[1], {1, 2}))}; }},
      {"cat",
       {input("a", f64, {n, 2}), input("b", f64, {m, 2})},
       [](Tensors x) { return Tensors{sin(cat({x[0], x[1], x[0] * 2}, 0))}; }},
      {"stack and split",
       {input("a", f64, {n, 4}), input("b", f64, {n, 4})},
       [](Tensors x) {
         const std::vector<Tensor> parts = split(stack({x[0], x[1]}, 1), 2, 2);
         return Tensors{parts[0] * parts[1]};
       }},
      {"repeat", {input("x", f64, {n, m})}, [](Tensors x) { return Tensors{sin(repeat(x[0], {2, 3}))}; }},
      {"squeeze and flatten",
       {input("x", f64, {n, 1, m})},
       [](Tensors x) { return Tensors{sin(flatten(squeeze(x[0], {1})))}; }},
  };
}

std::vector<GradientCase> index_cases() {
  const Dim n = case_n(), m = case_m();
  std::vector<GradientCase> out = {
      {"gather",
       {input("x", f64, {4, n}), input("i0_4", i32, {m, n})},
       [](Tensors x) { return Tensors{sin(gather(x[0], x[1], 0))}; }},
      {"index",
       {input("x", f64, {4, 3, n}), input("i0_4", i64, {m}), input("i1_3", i64, {m})},
       [](Tensors x) { return Tensors{sin(index(x[0], {x[1], x[2]}, {0, 1}))}; }},
      {"take",
       {input("x", f64, {n, 4}), input("i0_4", i64, {m, 2})},
       [](Tensors x) { return Tensors{sin(take(x[0], x[1], 1))}; }},
      {"sort", {input("x", f64, {n, 5})}, [](Tensors x) { return Tensors{sin(sort(x[0], 1).first)}; }, -2, 2, 0.1},
      {"sort, descending",
       {input("x", f64, {5, n})},
       [](Tensors x) {
         const auto [values, places] = sort(x[0], 0, true);
         return Tensors{values * values, places};
       },
       -2,
       2,
       0.1},
      {"topk", {input("x", f64, {n, 6})}, [](Tensors x) { return Tensors{exp(topk(x[0], 3, 1).first)}; }, -2, 2, 0.02},
  };
  const std::pair<const char*, ScatterKind> kinds[] = {{"set", ScatterKind::kSet},
                                                       {"add", ScatterKind::kAdd},
                                                       {"mul", ScatterKind::kMul},
                                                       {"min", ScatterKind::kMin},
                                                       {"max", ScatterKind::kMax}};
  for (const auto& [name, kind] : kinds) {
    // Several values at one place: three places for up to eight.
    out.push_back({std::string("scatter ") + name,
                   {input("x", f64, {3, n}), input("i0_3", i32, {4, n}), input("v", f64, {4, n})},
                   [kind = kind](Tensors x) { return Tensors{sin(scatter(x[0], x[1], x[2], 0, kind))}; }});
    out.push_back(
        {std::string("index_put ") + name,
         {input("x", f64, {3, n, 2}), input("i0_3", i64, {m}), input("i1_2", i64, {m}), input("v", f64, {m, n})},
         [kind = kind](Tensors x) { return Tensors{sin(index_put(x[0], {x[1], x[2]}, {0, 2}, x[3], kind))}; }});
  }
  return out;
}

std::vector<GradientCase> reduce_cases() {
  const Dim n = case_n(), m = case_m();
  std::vector<GradientCase> out = {
      {"sum", {input("x", f64, {n, m, 2})}, [](Tensors x) { return Tensors{sin(sum(x[0], {1})), sum(x[0])}; }},
      {"sum, kept", {input("x", f64, {n, m})}, [](Tensors x) { return Tensors{x[0] * sum(x[0], {0}, true)}; }},
      {"prod",
       {input("x", f64, {n, m, 2})},
       [](Tensors x) { return Tensors{prod(x[0], {0, 2}), prod(x[0], {1}, true)}; }},
      {"max", {input("x", f64, {n, m})}, [](Tensors x) { return Tensors{sin(reduce_max(x[0], {1}))}; }, -2, 2, 0.1},
      {"min",
       {input("x", f64, {n, m})},
       [](Tensors x) { return Tensors{sin(reduce_min(x[0])), reduce_min(x[0], {0}, true)}; },
       -2,
       2,
       0.1},
      {"mean", {input("x", f64, {n, m})}, [](Tensors x) { return Tensors{sin(mean(x[0], {0}))}; }},
      {"variance",
       {input("x", f64, {n + 1, m})},
       [](Tensors x) { return Tensors{variance(x[0], {0}, 1), variance(x[0])}; }},
      {"logsumexp",
       {input("x", f64, {n, m})},
       [](Tensors x) { return Tensors{sin(logsumexp(x[0], {1})), logsumexp(x[0])}; }},
  };
  const std::pair<const char*, ReduceKind> kinds[] = {
      {"sum", ReduceKind::kSum}, {"prod", ReduceKind::kProd}, {"min", ReduceKind::kMin}, {"max", ReduceKind::kMax}};
  for (const auto& [name, kind] : kinds) {
    for (const bool reverse : {false, true}) {
      for (const bool exclusive : {false, true}) {
        const bool extreme = kind == ReduceKind::kMin || kind == ReduceKind::kMax;
        // Exclusive extremes begin with an infinity, which has no differences.
        const auto finite = [](const Tensor& t) { return where(isinf(t), 0, t); };
        out.push_back(
            {std::string("scan ") + name + (reverse ? " reverse" : "") + (exclusive ? " exclusive" : ""),
             {input("x", f64, {n, 4, m})},
             [=, kind = kind](Tensors x) { return Tensors{sin(finite(scan(x[0], kind, 1, reverse, exclusive)))}; },
             -2,
             2,
             extreme ? 0.07 : 0.0});
      }
    }
  }
  return out;
}

}  // namespace kiln::graph::test
