// A tile kernel as a node of a graph.
#include <algorithm>

#include "kiln/dsl/text.h"
#include "kiln/graph/control.h"
#include "trace/body_scope.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

using Kind = KernelArgument::Kind;

std::string parameter_text(const dsl::Kernel& kernel, size_t i) {
  return "parameter " + kernel.params[i].name + " of kernel " + kernel.name;
}

// What the kernel's parameter cannot be given; empty when it can.
std::string mismatch(const Call& call, const dsl::Param& param, const KernelArgument& argument, const Tensor& input) {
  const std::string name(dsl::info(param.type.element).name);
  if (argument.kind == Kind::kScalar) {
    if (param.type.pointer) return "is a pointer, not a number";
    return dsl::is_int(param.type.element) ? "" : "is a number of " + name + "; an expression over dims is an int";
  }
  if (!param.type.pointer) return "is a number, not a tensor";
  const ElementType element = argument.kind == Kind::kInput ? call.element(input) : argument.element;
  if (element != param.type.element) {
    return "points to " + name + ", the tensor is of " + std::string(dsl::info(element).name);
  }
  if (argument.kind == Kind::kResult && param.readonly) return "is Ptr<const " + name + ">, which gives no result";
  return "";
}

struct Described {
  TileKernel kernel;
  Tensors inputs;
};

Described describe(Call& call, const dsl::Kernel& kernel, const std::vector<KernelArgument>& arguments) {
  Described out{{kernel.name, kernel, {}, {}, {}, kNone}, {}};
  if (kernel.params.size() != arguments.size()) {
    call.fail(std::to_string(arguments.size()) + " arguments for the " + std::to_string(kernel.params.size()) +
              " parameters of kernel " + kernel.name);
  }
  for (size_t i = 0; i < arguments.size() && call.ok(); ++i) {
    const KernelArgument& argument = arguments[i];
    Tensor input;
    if (argument.kind == Kind::kInput) input = call.tensor(Operand(argument.input, call.loc()));
    if (!call.ok()) return out;
    if (const std::string why = mismatch(call, kernel.params[i], argument, input); !why.empty()) {
      call.fail(parameter_text(kernel, i) + " " + why);
      return out;
    }
    switch (argument.kind) {
      case Kind::kInput:
        out.kernel.arguments.push_back(
            {TileKernel::Argument::Kind::kOperand, static_cast<uint32_t>(out.inputs.size()), {}});
        out.kernel.operands.push_back(call.type(input));
        out.inputs.push_back(input);
        break;
      case Kind::kResult:
        out.kernel.arguments.push_back(
            {TileKernel::Argument::Kind::kResult, static_cast<uint32_t>(out.kernel.results.size()), {}});
        out.kernel.results.push_back({argument.element, call.exprs(argument.shape)});
        break;
      case Kind::kScalar:
        out.kernel.arguments.push_back({TileKernel::Argument::Kind::kScalar, 0, call.expr(argument.scalar)});
        break;
    }
  }
  if (out.kernel.results.empty()) call.fail("kernel " + kernel.name + " has no results");
  return out;
}

bool same_use(const TileKernel& a, const TileKernel& b) {
  return a.operands == b.operands && a.results == b.results && a.codes == b.codes &&
         std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(),
                    [](const TileKernel::Argument& x, const TileKernel::Argument& y) {
                      return x.kind == y.kind && x.index == y.index && x.scalar == y.scalar;
                    });
}

// The number of the kernel in the graph: of one that is there already, where neither has a gradient.
std::optional<uint32_t> number_in_graph(Call& call, TileKernel kernel, bool may_share) {
  const std::vector<TileKernel>& there = call.trace().graph().kernels;
  const std::string text = dsl::print(kernel.kernel);
  const std::string name = kernel.name;
  for (uint32_t i = 0; may_share && i < there.size(); ++i) {
    if (there[i].gradient == kNone && there[i].kernel.name == name && same_use(there[i], kernel) &&
        dsl::print(there[i].kernel) == text) {
      return i;
    }
  }
  const auto taken = [&](const std::string& each) {
    return std::any_of(there.begin(), there.end(), [&](const TileKernel& other) { return other.name == each; });
  };
  for (int i = 2; taken(kernel.name); ++i) kernel.name = name + "_" + std::to_string(i);
  auto number = call.trace().builder().add_kernel(std::move(kernel));
  if (number) return *number;
  call.fail(number.error().message);
  return std::nullopt;
}

// Takes the operands, the results and a gradient of each result; gives one of each float operand.
void trace_gradient(Call& call, uint32_t number, const TileKernel& kernel, const KernelGradient& gradient) {
  BodyScope body(call.trace(), "gradient of kernel " + kernel.name, kernel.name + "_gradient", call.loc(),
                 Trace::Outside::kRefused);
  // At once: the gradient may run the same kernel, which then has none and is another one.
  const Graph& graph = call.trace().graph();
  const auto own = static_cast<BodyId>(&call.trace().builder().body() - graph.bodies.data());
  call.trace().builder().set_kernel_gradient(number, own);
  const auto inputs = [&](const char* name, const std::vector<TensorType>& types) {
    Tensors out;
    for (size_t i = 0; i < types.size(); ++i) out.push_back(body.add_input(name + std::to_string(i), types[i]));
    return out;
  };
  const Tensors operands = inputs("x", kernel.operands), results = inputs("y", kernel.results);
  const Tensors weights = inputs("g", kernel.results);
  const Tensors gradients = gradient(operands, results, weights);
  std::vector<TensorType> wanted;
  for (const TensorType& type : kernel.operands) {
    if (dsl::is_float(type.element)) wanted.push_back(type);
  }
  if (gradients.size() != wanted.size()) {
    call.fail("the gradient of kernel " + kernel.name + " gives " + std::to_string(gradients.size()) +
              " tensors, its float inputs are " + std::to_string(wanted.size()));
  }
  for (size_t i = 0; i < gradients.size() && call.ok(); ++i) {
    if (!call.trace().usable(gradients[i], call.what(), call.loc())) call.fail();
    if (!call.ok() || call.type(gradients[i]) == wanted[i]) continue;
    call.fail("gradient " + std::to_string(i) + " of kernel " + kernel.name + " is " + call.text(gradients[i]) +
              ", its input " + to_string(wanted[i], call.trace().graph().expr_names()));
  }
  const auto closed = call.ok() ? body.close(gradients) : std::nullopt;
  call.trace().builder().set_kernel_gradient(number, closed ? closed->id : kNone);
}

}  // namespace

Tensors kernel(const CustomKernel& custom, std::vector<KernelArgument> arguments, const KernelGradient& gradient,
               SourceLocation loc) {
  Call call("kernel", loc);
  const auto results = static_cast<size_t>(
      std::count_if(arguments.begin(), arguments.end(), [](const auto& each) { return each.kind == Kind::kResult; }));
  const Tensors failed(results);
  if (!custom.kernel) call.fail(custom.kernel.error().message);
  if (!call.ok()) return failed;
  Described described = describe(call, *custom.kernel, arguments);
  if (!call.ok()) return failed;
  for (const TileKernel::Code& each : custom.codes) {
    auto fine = dsl::check_custom_request({dsl::declaration_of(*custom.kernel), each.code, each.target});
    if (!fine) call.fail(fine.error().message);
  }
  if (!call.ok()) return failed;
  described.kernel.codes = custom.codes;
  const auto number = number_in_graph(call, described.kernel, !gradient);
  if (!number) return failed;
  if (gradient) trace_gradient(call, *number, described.kernel, gradient);
  if (!call.ok()) return failed;
  const Tensors out = call.trace().emit_all(TensorOp::kKernel, described.inputs, {int64_t{*number}}, loc);
  return out.empty() ? failed : out;
}

Tensors kernel(const Result<dsl::Kernel>& tile, std::vector<KernelArgument> arguments, const KernelGradient& gradient,
               SourceLocation loc) {
  return kernel(CustomKernel{tile, {}}, std::move(arguments), gradient, loc);
}

}  // namespace kiln::graph
