#include "differentiate/differences.h"

namespace kiln::graph::test {
namespace {

using Unary = Tensor (*)(Operand);
using Binary = Tensor (*)(Operand, Operand);

GradientCase unary(const char* name, Unary f, double low = -2, double high = 2) {
  return {name, {input("x", f64, {case_n(), 2})}, [f](Tensors x) { return Tensors{f(x[0])}; }, low, high};
}
GradientCase binary(const char* name, Binary f, double low = -2, double high = 2) {
  return {name,
          {input("a", f64, {case_n(), 2}), input("b", f64, {case_n(), 2})},
          [f](Tensors x) { return Tensors{f(x[0], x[1])}; },
          low,
          high};
}

}  // namespace

std::vector<GradientCase> elementwise_cases() {
  const Dim n = case_n(), m = case_m();
  std::vector<GradientCase> out = {
      binary("add", operator+),
      binary("sub", operator-),
      binary("mul", operator*),
      binary("div", operator/, 0.5, 2),
      // remainders whose quotients stay off whole numbers
      {"rem",
       {input("a", f64, {n}), input("b", f64, {n})},
       [](Tensors x) { return Tensors{(x[0] + 5.0) % (x[1] * 0.05 + 3.1)}; },
       -0.5,
       0.5},
      binary("min", min),
      binary("max", max),
      unary("neg", operator-),
      unary("abs", abs),
      unary("square", square),
      unary("reciprocal", reciprocal, 0.5, 2),
      unary("exp", exp),
      unary("exp2", exp2),
      unary("expm1", expm1),
      unary("log", log, 0.3, 3),
      unary("log2", log2, 0.3, 3),
      unary("log10", log10, 0.3, 3),
      unary("log1p", log1p, -0.6, 3),
      unary("sin", sin),
      unary("cos", cos),
      unary("tan", tan, -1, 1),
      unary("asin", asin, -0.8, 0.8),
      unary("acos", acos, -0.8, 0.8),
      unary("atan", atan),
      binary("atan2", atan2, 0.3, 2),
      unary("sinh", sinh),
      unary("cosh", cosh),
      unary("tanh", tanh),
      unary("erf", erf),
      unary("erfc", erfc),
      unary("sqrt", sqrt, 0.3, 3),
      unary("rsqrt", rsqrt, 0.3, 3),
      binary("pow", pow, 0.4, 2),
      {"pow of negative numbers", {input("x", f64, {n})}, [](Tensors x) { return Tensors{pow(x[0], 3)}; }},
      binary("hypot", hypot, 0.3, 2),
      binary("copysign", copysign),
      {"fma",
       {input("a", f64, {n}), input("b", f64, {n}), input("c", f64, {n})},
       [](Tensors x) { return Tensors{fma(x[0], x[1], x[2])}; }},
      {"select",
       {input("a", f64, {n, 3}), input("b", f64, {n, 3}), input("i0_2", i32, {n, 3})},
       [](Tensors x) { return Tensors{where(x[2] == 0, sin(x[0]), exp(x[1]))}; }},
      {"cast",
       {input("x", f64, {n})},
       [](Tensors x) { return Tensors{sin(cast(x[0], f64)) * cast(x[0] * 0 + 2, i32)}; }},
      {"bits",
       {input("x", f64, {n})},
       [](Tensors x) { return Tensors{sin(x[0]) + cast(bitcast(x[0], i64) & 0, f64)}; }},
      {"one operand twice", {input("x", f64, {n})}, [](Tensors x) { return Tensors{x[0] * x[0] - x[0] / (x[0] + 5)}; }},
      {"broadcasts of both",
       {input("a", f64, {n, 1}), input("b", f64, {m}), input("c", f64, {})},
       [](Tensors x) { return Tensors{x[0] * exp(x[1]) + x[2], x[2] * x[0]}; }},
      {"zero slopes",
       {input("x", f64, {n})},
       [](Tensors x) {
         const Tensor y = x[0];
         return Tensors{y * (floor(y) + ceil(y) + round(y) + trunc(y) + sign(y))};
       },
       0.6,
       0.9},
      {"stop_gradient at a constant",
       {input("x", f64, {n})},
       [](Tensors x) { return Tensors{x[0] * stop_gradient(iota(f64, {case_n()}, 0))}; }},
      {"an output that is an input",
       {input("x", f64, {n}), input("z", f64, {m})},
       [](Tensors x) { return Tensors{x[0], x[0] * 2}; }},
      {"random numbers", {input("x", f64, {n})}, [](Tensors x) { return Tensors{x[0] * uniform(7, 3, {case_n()})}; }},
  };
  return out;
}

}  // namespace kiln::graph::test
