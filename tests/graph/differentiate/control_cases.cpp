#include "differentiate/differences.h"

namespace kiln::graph::test {

std::vector<GradientCase> control_cases() {
  const Dim n = case_n(), m = case_m();
  const auto step = [](const Tensors& carried, const Tensors& slices) {
    const Tensor next = tanh(carried[0] + slices[0]);
    return LoopStep{{next}, {next * carried[0]}};
  };
  return {
      {"loop",
       {input("h", f64, {m}), input("xs", f64, {n, m})},
       [=](Tensors x) {
         LoopStep out = loop(n, {x[0]}, {x[1]}, step);
         return Tensors{out.carried[0], out.stacked[0]};
       }},
      {"loop, reverse",
       {input("h", f64, {m}), input("xs", f64, {n, m})},
       [=](Tensors x) {
         LoopStep out = loop(n, {x[0]}, {x[1]}, step, {.reverse = true});
         return Tensors{sin(out.carried[0]) * out.stacked[0]};
       }},
      {"loop with constants, ints and several carried",
       {input("h", f64, {m}), input("w", f64, {m, m}), input("b", f64, {m}), input("i0_9", i32, {})},
       [](Tensors x) {
         LoopStep out = loop(3, {x[0], x[3], x[2] * 0.5}, {}, [&](const Tensors& carried, const Tensors&) {
           const Tensor h = tanh(matmul(x[1], carried[0]) + carried[2]);
           return LoopStep{{h, carried[1] + 1, carried[2] * x[2]}, {h * cast(carried[1], f64)}};
         });
         return Tensors{out.carried[0], out.carried[1], out.carried[2], out.stacked[0]};
       }},
      {"a loop of no carried tensors",
       {input("xs", f64, {n, m}), input("w", f64, {m})},
       [=](Tensors x) {
         return loop(n, {}, {x[0]},
                     [&](const Tensors&, const Tensors& slices) { return LoopStep{{}, {sin(slices[0]) * x[1]}}; })
             .stacked;
       }},
      {"what comes round late",
       {input("x", f64, {m})},
       [](Tensors x) {
         // Only the second carried tensor moves with x, and the first one with that a pass later.
         LoopStep out = loop(4, {zeros(f64, {case_m()}), x[0]}, {}, [](const Tensors& c, const Tensors&) {
           return LoopStep{{c[0] * 0.5 + c[1] * c[1], sin(c[1])}, {}};
         });
         return Tensors{out.carried[0]};
       }},
      {"loops in a loop",
       {input("h", f64, {m}), input("xs", f64, {n, 2, m})},
       [=](Tensors x) {
         LoopStep out = loop(n, {x[0]}, {x[1]}, [&](const Tensors& carried, const Tensors& slices) {
           LoopStep inner = loop(2, {carried[0]}, {slices[0]}, step);
           return LoopStep{{inner.carried[0] * 0.7}, {inner.stacked[0]}};
         });
         return Tensors{out.carried[0], out.stacked[0]};
       },
       -1,
       1,
       0,
       false},
      {"cond",
       {input("x", f64, {n}), input("z", f64, {n}), input("i0_2", i32, {})},
       [](Tensors x) {
         return cond(
             x[2] == 0, [&] { return Tensors{sin(x[0]), x[0]}; }, [&] { return Tensors{x[0] * x[1], exp(x[1])}; });
       }},
      {"call",
       {input("x", f64, {n}), input("w", f64, {n})},
       [](Tensors x) {
         const auto layer = [&](Tensors t) { return Tensors{sin(t[0]) * x[1], t[0] + 1}; };
         const Tensors once = call("layer", {x[0]}, layer);
         return call("layer", {once[0] * once[1]}, layer);
       }},
      {"checkpoint",
       {input("x", f64, {n}), input("w", f64, {n})},
       [](Tensors x) {
         const Tensors once = checkpoint({x[0]}, [&](Tensors t) { return Tensors{exp(sin(t[0])) * x[1]}; });
         return checkpoint(once, [&](Tensors t) { return Tensors{t[0] * t[0] * x[1]}; });
       }},
      {"cond in a loop in a checkpoint",
       {input("h", f64, {m}), input("xs", f64, {n, m})},
       [=](Tensors x) {
         return checkpoint({x[0], x[1]}, [&](Tensors t) {
           LoopStep out = loop(n, {t[0]}, {t[1]}, [&](const Tensors& c, const Tensors& s) {
             const Tensor next = cond(sum(s[0]) > 0, [&] { return sin(c[0]) + s[0]; }, [&] { return c[0] * s[0]; });
             return LoopStep{{next}, {}};
           });
           return out.carried;
         });
       }},
      {"call in a loop",
       {input("h", f64, {m}), input("w", f64, {m})},
       [](Tensors x) {
         return loop(3, {x[0]}, {},
                     [&](const Tensors& c, const Tensors&) {
                       return LoopStep{call("layer", {c[0]}, [&](Tensors t) { return Tensors{tanh(t[0]) * x[1]}; }),
                                       {}};
                     })
             .carried;
       }},
  };
}

}  // namespace kiln::graph::test
