// Mixtures of experts: routes, rows sorted by expert, products by group, and back.
#include "decompose/decompositions.h"
#include "kiln/dsl/kernels/grouped.h"
#include "kiln/graph/control.h"
#include "kiln/graph/extents.h"
#include "kiln/graph/sequences.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

namespace kernels = dsl::lang::kernels;

Tensor index_of_row(const Tensor& sizes, const Dim& rows) {
  const Tensor end = cumsum(cast(sizes, i64), 0);
  return sum(cast(expand_dims(end, 0) <= expand_dims(arange(rows), 1), i64), {1});
}

// A kernel that takes this many groups.
dsl::Kernel of_groups(const Result<dsl::Kernel>& kernel, int64_t groups) {
  dsl::Kernel out = *kernel;
  for (dsl::Constexpr& each : out.constexprs) {
    if (each.name != "GROUPS") continue;
    while (*each.default_value < groups) *each.default_value *= 2;
  }
  return out;
}

// The three products by group of one element type.
struct GroupedKernels {
  const Result<dsl::Kernel>*plain, *turned, *weights;
};
template <class T>
GroupedKernels grouped_kernels() {
  return {&kernels::grouped_matmul<T>().ir(), &kernels::grouped_matmul_nt<T>().ir(),
          &kernels::grouped_matmul_tn<T>().ir()};
}
std::optional<GroupedKernels> kernels_of(ElementType type) {
  if (type == f32) return grouped_kernels<dsl::lang::f32>();
  if (type == bf16) return grouped_kernels<dsl::lang::bf16>();
  if (type == f16) return grouped_kernels<dsl::lang::f16>();
  return std::nullopt;
}

// The three products of x [R, in], w [groups, in, out] and y [R, out], each of which has the other two as its gradient.
// Of gradients only so many are traced.
constexpr int kGradients = 2;

class Products {
 public:
  Products(const GroupedKernels& kernels, int64_t groups, SourceLocation loc)
      : kernels_(kernels), groups_(groups), loc_(loc) {}

  Tensor outputs(const Tensor& x, const Tensor& w, const Tensor& sizes, int gradients) const {
    return rows(kernels_.plain, x, w, sizes, w.extent(2), gradients, [this, gradients](Tensors in, Tensors, Tensors g) {
      return Tensors{inputs(g[0], in[1], in[2], gradients - 1), weights(in[0], g[0], in[2], gradients - 1)};
    });
  }
  Tensor inputs(const Tensor& y, const Tensor& w, const Tensor& sizes, int gradients) const {
    return rows(
        kernels_.turned, y, w, sizes, w.extent(1), gradients, [this, gradients](Tensors in, Tensors, Tensors g) {
          return Tensors{outputs(g[0], in[1], in[2], gradients - 1), weights(g[0], in[0], in[2], gradients - 1)};
        });
  }
  Tensor weights(const Tensor& x, const Tensor& y, const Tensor& sizes, int gradients) const {
    const KernelArgument result = KernelArgument::out(x.element(), {groups_, x.extent(1), y.extent(1)});
    return run(kernels_.weights, {x, y, sizes}, result, y.extent(1), x.extent(1), gradients,
               [this, gradients](Tensors in, Tensors, Tensors g) {
                 return Tensors{inputs(in[1], g[0], in[2], gradients - 1), outputs(in[0], g[0], in[2], gradients - 1)};
               });
  }

 private:
  Tensor rows(const Result<dsl::Kernel>* by, const Tensor& x, const Tensor& w, const Tensor& sizes, const Dim& width,
              int gradients, const KernelGradient& gradient) const {
    const KernelArgument result = KernelArgument::out(x.element(), {x.extent(0), width});
    return run(by, {x, w, sizes}, result, width, x.extent(1), gradients, gradient);
  }
  Tensor run(const Result<dsl::Kernel>* by, const Tensors& in, const KernelArgument& result, const Dim& n, const Dim& k,
             int gradients, const KernelGradient& gradient) const {
    const auto number = &KernelArgument::number;
    return kernel(of_groups(*by, groups_),
                  {KernelArgument::in(in[0]), KernelArgument::in(in[1]), KernelArgument::in(in[2]), result,
                   number(in[0].extent(0)), number(n), number(k), number(groups_)},
                  gradients > 0 ? gradient : KernelGradient(), loc_)[0];
  }

  GroupedKernels kernels_;
  int64_t groups_;
  SourceLocation loc_;
};

}  // namespace

Routes route(Operand scores, int64_t count, bool renormalise) {
  Call call("route", scores);
  const Tensor from = call.float_tensor(scores);
  if (call.ok() && call.rank(from) != 2) call.fail("scores are " + call.text(from) + ", not [T, E]");
  if (!call.ok()) return {};
  const Trace::LineScope line(scores.loc());
  const auto [best, experts] = topk(softmax(widened(from)), count, 1);
  const Tensor weights = renormalise ? best / sum(best, {1}, true) : best;
  return {cast(weights, from.element()), experts};
}

Dispatch dispatch(Operand experts, int64_t count) {
  Call call("dispatch", experts);
  const Tensor from = call.tensor(experts);
  if (call.ok() && (call.rank(from) != 2 || !dsl::is_int(call.element(from)))) {
    call.fail("experts are " + call.text(from) + ", not ints [T, count]");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(experts.loc());
  const Tensor flat = flatten(from);
  return {sort(flat, 0).second, cast(histogram(flat, count), i32)};
}

Tensor grouped_linear(Operand x, Operand w, Operand sizes) {
  Call call("grouped_linear", x);
  const std::vector<Tensor> operands = call.promoted({&x, &w}, true);
  const Tensor counts = call.tensor_as(sizes, i32);
  if (!call.ok()) return {};
  const Tensor rows = operands[0], weights = operands[1];
  if (call.rank(rows) != 2 || call.rank(weights) != 3 || call.rank(counts) != 1) {
    call.fail(call.text(rows) + ", " + call.text(weights) + " and " + call.text(counts) +
              " are not [R, in], [E, in, out] and [E]");
  }
  const auto groups = call.extent(weights, 0).as_constant();
  if (!groups) call.fail("the number of groups of " + call.text(weights) + " is no number");
  const auto same = [&](const Expr& a, const Expr& b) { return equal(call.trace().graph().dims, a, b) == Known::kYes; };
  if (call.ok() &&
      !(same(call.extent(rows, 1), call.extent(weights, 1)) && same(call.extent(counts, 0), call.extent(weights, 0)))) {
    call.fail(call.text(rows) + " and sizes " + call.text(counts) + " do not go with " + call.text(weights));
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  if (const auto by = kernels_of(rows.element())) {
    return Products(*by, *groups, call.loc()).outputs(rows, weights, counts, kGradients);
  }
  const Tensor group = index_of_row(counts, rows.extent(0));
  const Tensor own = index(weights, {min(group, *groups - 1)}, {0});
  const Tensor y = squeeze(matmul(expand_dims(rows, 1), own), {1});
  return where(expand_dims(group, 1) < *groups, y, 0.0);
}

Tensor mixture_of_experts(Operand x, Operand gate, Operand w_in, Operand w_out, int64_t count, GateKind kind) {
  Call call("mixture_of_experts", x);
  const std::vector<Tensor> operands = call.promoted({&x, &gate, &w_in, &w_out}, true);
  if (call.ok() && (call.rank(operands[0]) != 2 || call.rank(operands[1]) != 2)) {
    call.fail(call.text(operands[0]) + " and a gate of " + call.text(operands[1]) + " are not [T, D] and [E, D]");
  }
  const auto experts = call.ok() ? call.extent(operands[1], 0).as_constant() : std::nullopt;
  if (call.ok() && !experts) call.fail("the number of experts of " + call.text(operands[1]) + " is no number");
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor tokens = operands[0];
  const Routes to = route(linear(tokens, operands[1]), count);
  const Dispatch rows = dispatch(to.experts, *experts);
  const Tensor entered = grouped_linear(take(tokens, rows.order / count, 0), operands[2], rows.sizes);
  const Tensor left = grouped_linear(gated(entered, kind), operands[3], rows.sizes);
  // Back in the tokens' order, where the parts of one token follow each other.
  const Dim all = tokens.extent(0) * count;
  const Tensor place = index_put(zeros(i64, {all}), {rows.order}, {0}, arange(all));
  const Tensor parts = reshape(take(left, place, 0), {tokens.extent(0), count, left.extent(1)});
  return cast(sum(widened(parts) * widened(expand_dims(to.weights, 2)), {1}), tokens.element());
}

}  // namespace kiln::graph
