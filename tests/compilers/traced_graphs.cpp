#include "traced_graphs.h"

namespace kiln::compilers {
namespace {

using namespace graph;

Tensor add3(const Tensor& a, const Tensor& b, const Tensor& c) { return a + b * c; }

// Nodes in the arguments of nested calls; dims that are first mentioned there.
GraphDef nested_calls() {
  const Dim n = dim("n"), m = dim("m", 1, 64), k = dim("k", 0, 100);
  return graph::graph("nested_calls", {input("x", f32, {n, m}), input("y", f32, {n, m})}, [&](Tensor x, Tensor y) {
    return add3(max(x * y, x + 1), min(sin(x) - cos(y), exp(x) / (y * y + 1)),
                add3(zeros(f32, {n, m}) + extent(m, f32), where(x > y, x * 2, y * -2), abs(x) + sqrt(abs(y)))) +
           sum(ones(f32, {k}));
  });
}

// Commuting operands that are computed alike from different inputs, and doubles.
GraphDef commuting() {
  const Dim n = dim("n");
  return graph::graph("commuting", {input("x", f32, {n}), input("y", f32, {n}), input("z", f32, {n})},
                      [](Tensor x, Tensor y, Tensor z) {
                        return (exp(x) + exp(y)) * (exp(z) + exp(x)) + max(exp(y) * exp(z), exp(z) * exp(y));
                      });
}

// Bodies that first use what is outside of them in the operands of one expression.
GraphDef captures() {
  const Dim n = dim("n");
  const std::vector<InputSpec> inputs = {input("h", f32, {4}), input("xs", f32, {n, 4}), input("p", f32, {4}),
                                         input("q", f32, {4}), input("r", f32, {4}),     input("c", i1, {})};
  return graph::graph("captures", inputs, [&](Tensor h, Tensor xs, Tensor p, Tensor q, Tensor r, Tensor c) {
    const LoopStep out = loop(n, {h}, {xs}, [&](Tensors carried, Tensors slices) {
      const Tensor next = add3(p - carried[0], slices[0] / q, tanh(r) - p);
      return LoopStep{{next}, {next * q - r}};
    });
    const Tensor chosen =
        cond(c, [&] { return add3(q - r, out.carried[0] / p, r); }, [&] { return (r - p) / (q - out.carried[0]); });
    return add3(chosen, sum(out.stacked[0], {0}), p);
  });
}

// Bodies within bodies, and two that are equal.
GraphDef nested_bodies() {
  const Dim n = dim("n", 1, 512);
  return graph::graph("nested_bodies", {input("x", f32, {n}), input("w", f32, {n}), input("v", f32, {n})},
                      [](Tensor x, Tensor w, Tensor v) {
                        const auto layer = [&](Tensors in) {
                          return call("inner", {in[0] * w + v / in[0]},
                                      [&](Tensors inner) { return Tensors{(v - inner[0]) * (inner[0] - w)}; });
                        };
                        return call("layer", {x}, layer)[0] - call("layer", {x + 1}, layer)[0];
                      });
}

}  // namespace

std::vector<TracedGraph> traced_graphs() {
  std::vector<TracedGraph> out;
  out.push_back({"graph_nested_calls", nested_calls()});
  out.push_back({"graph_commuting", commuting()});
  out.push_back({"graph_captures", captures()});
  out.push_back({"graph_nested_bodies", nested_bodies()});
  return out;
}

}  // namespace kiln::compilers
