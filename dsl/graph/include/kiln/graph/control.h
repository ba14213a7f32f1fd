// Bodies: loops, branches, calls, custom reductions and kernels of one's own. Functions see the tensors around them:
// what they use of outside becomes an operand of the op.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kiln/dsl/kernel.h"
#include "kiln/graph/tensor.h"

namespace kiln::graph {

using Tensors = std::vector<Tensor>;

struct LoopStep {
  Tensors carried;  // the next ones, of the same types
  Tensors stacked;  // of each pass, along a new first axis of the results
};
struct LoopOptions {
  bool reverse = false;  // slices are read, and stacks written, from the last to the first
};
// Runs `step` length times. carried: first values; scanned: tensors whose first axis has extent `length`, a slice of
// which each pass gets. Gives the last carried values and the stacks.
LoopStep loop(Dim length, Tensors carried, Tensors scanned,
              const std::function<LoopStep(Tensors carried, Tensors slices)>& step, LoopOptions options = {},
              SourceLocation loc = SourceLocation::current());

Tensors cond(Operand predicate, const std::function<Tensors()>& then, const std::function<Tensors()>& otherwise);
Tensor cond(Operand predicate, const std::function<Tensor()>& then, const std::function<Tensor()>& otherwise);

// A part of the graph under a name of its own, kept as one node.
Tensors call(std::string name, Tensors inputs, const std::function<Tensors(Tensors)>& function,
             SourceLocation loc = SourceLocation::current());
// The same; gradients compute what is inside again instead of keeping it.
Tensors checkpoint(Tensors inputs, const std::function<Tensors(Tensors)>& function,
                   SourceLocation loc = SourceLocation::current());

// The function combines scalars of the left and of the right side; it sees nothing else.
using Combine = std::function<Tensors(Tensors left, Tensors right)>;
Tensors reduce(Tensors xs, Tensors inits, std::vector<int> axes, const Combine& combine, bool keep = false,
               SourceLocation loc = SourceLocation::current());
Tensors scan(Tensors xs, int axis, const Combine& combine, bool reverse = false,
             SourceLocation loc = SourceLocation::current());

// A tile kernel: its arguments in order, each an input tensor, a result (by type) or an integer expression over dims.
struct KernelArgument {
  enum class Kind : uint8_t { kInput, kResult, kScalar };
  Kind kind;
  Tensor input;
  ElementType element = f32;
  Shape shape;  // of a result
  Dim scalar;

  static KernelArgument in(const Tensor& tensor) { return {Kind::kInput, tensor, f32, {}, {}}; }
  static KernelArgument out(ElementType element, Shape shape) {
    return {Kind::kResult, {}, element, std::move(shape), {}};
  }
  static KernelArgument number(Dim value) { return {Kind::kScalar, {}, f32, {}, std::move(value)}; }
};
// Inputs, results, a gradient of each result in; a gradient of each float input out. Absent: a gradient through the
// kernel is an error that names it.
using KernelGradient = std::function<Tensors(Tensors inputs, Tensors results, Tensors gradients)>;
Tensors kernel(const Result<dsl::Kernel>& kernel, std::vector<KernelArgument> arguments,
               const KernelGradient& gradient = {}, SourceLocation loc = SourceLocation::current());

// One with code of one's own (kiln/dsl/custom_kernel.h) for some targets: there it runs in place of the kernel's ops,
// which say what it computes everywhere else. A kernel without ops only declares: elsewhere it is an error.
struct CustomKernel {
  Result<dsl::Kernel> kernel;
  std::vector<TileKernel::Code> codes;
};
Tensors kernel(const CustomKernel& kernel, std::vector<KernelArgument> arguments, const KernelGradient& gradient = {},
               SourceLocation loc = SourceLocation::current());

}  // namespace kiln::graph
