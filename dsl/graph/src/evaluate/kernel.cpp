// Evaluator: a tile kernel of the user's, by the tile interpreter.
#include "evaluate/array_loops.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"

namespace kiln::graph::evaluator {
namespace {

Result<std::shared_ptr<const dsl::Kernel>> instantiated(Machine& machine, size_t number) {
  if (machine.kernels.empty()) machine.kernels.resize(machine.graph.kernels.size());
  if (!machine.kernels[number]) {
    auto kernel = dsl::instantiate(machine.graph.kernels[number].kernel, {}, {});
    if (!kernel) return kernel.error();
    machine.kernels[number] = std::make_shared<const dsl::Kernel>(std::move(*kernel));
  }
  return machine.kernels[number];
}

// Operands and results in memory of their own, of the declared types.
struct Buffers {
  std::vector<Array> operands, results;
  std::vector<dsl::Argument> arguments;
  dsl::Bindings bindings;
};

Result<Buffers> buffers_of(Step& step, const TileKernel& kernel) {
  Buffers out;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    out.operands.push_back(contiguous(converted(step.operand(i), step.declared_operand(i))));
  }
  for (size_t i = 0; i < step.node.result_count; ++i)
    out.results.push_back(own(step.declared_result(i), step.shape(i)));
  out.bindings.params.resize(kernel.arguments.size());
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const TileKernel::Argument& argument = kernel.arguments[i];
    if (argument.kind == TileKernel::Argument::Kind::kScalar) {
      auto value = step.machine.number(argument.scalar);
      if (!value) return step.fail(value.error().message);
      const ElementType type = kernel.kernel.params[i].type.element;
      if (!dsl::int_fits(type, *value)) {
        return step.fail("`" + kernel.kernel.params[i].name + "` is " + std::to_string(*value) + ", which is no " +
                         std::string(dsl::info(type).name));
      }
      out.arguments.push_back({nullptr, 0, dsl::bits_from_int(type, *value)});
      out.bindings.params[i] = *value;
    } else {
      Array& array =
          (argument.kind == TileKernel::Argument::Kind::kOperand ? out.operands : out.results)[argument.index];
      out.arguments.push_back({bytes_of(array), array.count(), 0});
    }
  }
  return out;
}

}  // namespace

Result<void> run_kernel(Step& step) {
  const auto number = static_cast<size_t>(int_attr(step.attrs(), 0));
  const TileKernel& kernel = step.machine.graph.kernels[number];
  if (const std::string why = kernel.no_ops(); !why.empty()) {
    return step.fail("`" + kernel.name + "` " + why + " that say what it computes");
  }
  auto code = instantiated(step.machine, number);
  if (!code) return step.fail("`" + kernel.name + "`: " + code.error().message);
  auto buffers = buffers_of(step, kernel);
  if (!buffers) return buffers.error();
  auto grid = dsl::evaluate_grid((*code)->grid, buffers->bindings, code->get());
  if (!grid) return step.fail("`" + kernel.name + "`: " + grid.error().message);
  if (auto done = dsl::interpret(**code, buffers->arguments, *grid); !done) {
    return step.fail("`" + kernel.name + "`: " + done.error().message);
  }
  for (size_t i = 0; i < buffers->results.size(); ++i) {
    step.give(converted(buffers->results[i], step.machine.computed(step.declared_result(i))));
  }
  return {};
}

}  // namespace kiln::graph::evaluator
