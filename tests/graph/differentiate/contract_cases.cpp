#include "differentiate/differences.h"

namespace kiln::graph::test {
namespace {

GradientCase conv_case(const char* name, std::vector<Dim> x, std::vector<Dim> w, const ConvOptions& options) {
  return {name, {input("x", f64, x), input("w", f64, w)}, [options](Tensors t) {
            return Tensors{sin(conv(t[0], t[1], options))};
          }};
}

GradientCase window_case(const std::string& name, WindowKind kind, const WindowOptions& options) {
  return {name,
          {input("x", f64, {2, 7, 6})},
          [=](Tensors t) { return Tensors{sin(window(t[0], kind, options))}; },
          -2,
          2,
          kind == WindowKind::kSum ? 0.0 : 0.02};
}

}  // namespace

std::vector<GradientCase> contract_cases() {
  const Dim n = case_n(), m = case_m();
  return {
      {"dot",
       {input("a", f64, {n, 3}), input("b", f64, {3, m})},
       [](Tensors x) { return Tensors{sin(matmul(x[0], x[1]))}; }},
      {"dot with batch, free and contracted axes in any order",
       {input("a", f64, {2, n, 3, m, 2}), input("b", f64, {m, 3, 4, 2, 2})},
       [](Tensors x) { return Tensors{sin(dot(x[0], x[1], {{4}, {3}, {3, 2}, {0, 1}}))}; }},
      {"dot with two batches",
       {input("a", f64, {n, m, 3}), input("b", f64, {3, m, n, 2})},
       [](Tensors x) { return Tensors{dot(x[0], x[1], {{0, 1}, {2, 1}, {2}, {0}})}; }},
      {"outer product",
       {input("a", f64, {n}), input("b", f64, {m})},
       [](Tensors x) { return Tensors{sin(dot(x[0], x[1], {}))}; }},
      {"vectors",
       {input("a", f64, {n}), input("b", f64, {n})},
       [](Tensors x) { return Tensors{sin(matmul(x[0], x[1]))}; }},
      {"batches that broadcast",
       {input("a", f64, {2, 1, n, 3}), input("b", f64, {m, 3, 2})},
       [](Tensors x) { return Tensors{sin(matmul(x[0], x[1]))}; }},
      {"linear",
       {input("x", f64, {n, m, 3}), input("w", f64, {4, 3}), input("b", f64, {4})},
       [](Tensors x) { return Tensors{sin(linear(x[0], x[1], x[2]))}; }},
      conv_case("conv 1", {2, 4, 7}, {6, 2, 3}, {{2}, {1}, {2}, {2}, 2}),
      conv_case("conv 2", {n, 2, 5, 6}, {3, 2, 3, 2}, {{1, 2}, {1, 0}, {1, 1}, {}, 1}),
      conv_case("conv 3", {1, 2, 3, 4, 3}, {2, 1, 2, 2, 3}, {{}, {0, 1, 1}, {1, 0, 1}, {1, 2, 1}, 2}),
      conv_case("conv that crops", {1, 1, 8}, {1, 1, 3}, {{1}, {-1}, {-2}, {1}, 1}),
      conv_case("conv that leaves a rest", {1, 1, 8, m}, {2, 1, 3, 1}, {{3, 1}, {}, {}, {}, 1}),
      {"conv_transposed",
       {input("x", f64, {n, 4, 3}), input("w", f64, {4, 2, 3})},
       [](Tensors x) { return Tensors{sin(conv_transposed(x[0], x[1], {{2}, {1}, {1}, {1}, 2}, {1}))}; }},
      {"conv_weight",
       {input("x", f64, {2, 2, 6}), input("g", f64, {2, 3, 4})},
       [](Tensors x) { return Tensors{sin(conv_weight(x[0], x[1], {3}))}; }},
      {"conv_bias",
       {input("x", f64, {n, 2, 5}), input("w", f64, {3, 2, 2}), input("b", f64, {3})},
       [](Tensors x) { return Tensors{sin(conv(x[0], x[1], x[2], {}))}; }},
  };
}

std::vector<GradientCase> window_cases() {
  const Dim n = case_n();
  std::vector<GradientCase> out;
  const std::pair<const char*, WindowKind> kinds[] = {
      {"sum", WindowKind::kSum}, {"max", WindowKind::kMax}, {"min", WindowKind::kMin}};
  for (const auto& [name, kind] : kinds) {
    out.push_back(
        window_case(std::string("window ") + name, kind, {{1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {0, 1, 1}, {1, 1, 2}}));
    out.push_back(window_case(std::string("windows apart ") + name, kind, {{1, 2, 2}, {1, 3, 3}, {}, {}, {}}));
    out.push_back(
        {std::string("window_spread ") + name,
         {input("x", f64, {7}), input("g", f64, {3})},
         [kind = kind](Tensors x) { return Tensors{sin(window_spread(x[0], x[1], kind, {{3}, {2}, {}, {}, {}}))}; },
         -2,
         2,
         0.1});
  }
  for (const PickKind kind : {PickKind::kMax, PickKind::kMin}) {
    out.push_back(
        {"window_pick",
         {input("x", f64, {7, n}), input("t", f64, {7, n})},
         [kind](Tensors x) { return Tensors{sin(window_pick(x[0], x[1], kind, {{3, 1}, {2, 1}, {}, {}, {}}))}; },
         -2,
         2,
         0.1});
  }
  out.push_back({"max_pool",
                 {input("x", f64, {2, n, 5, 4})},
                 [](Tensors x) { return Tensors{sin(max_pool(x[0], {{2, 3}, {2, 1}, {1, 1}, {1, 1}, {}}))}; },
                 -2,
                 2,
                 0.02});
  for (const bool count : {false, true}) {
    out.push_back({"avg_pool", {input("x", f64, {2, n, 5, 4})}, [count](Tensors x) {
                     return Tensors{sin(avg_pool(x[0], {{2, 3}, {2, 1}, {1, 1}, {1, 1}, {}}, count))};
                   }});
  }
  const std::pair<const char*, ResizeMode> modes[] = {
      {"nearest", ResizeMode::kNearest}, {"linear", ResizeMode::kLinear}, {"cubic", ResizeMode::kCubic}};
  for (const auto& [name, mode] : modes) {
    for (const bool corners : {false, true}) {
      out.push_back({std::string("resize ") + name, {input("x", f64, {n, 3, 4})}, [mode = mode, corners](Tensors x) {
                       return Tensors{sin(resize(x[0], {5, 3}, mode, corners))};
                     }});
    }
    out.push_back({std::string("resize_spread ") + name, {input("g", f64, {n, 5})}, [mode = mode](Tensors x) {
                     return Tensors{sin(resize_spread(x[0], {3}, mode))};
                   }});
  }
  return out;
}

}  // namespace kiln::graph::test
