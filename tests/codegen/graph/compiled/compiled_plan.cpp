#include "compiled_plan.h"

#include "compile_once.h"
#include "kiln/dsl/config.h"

namespace kiln::test {
namespace {

size_t bytes_of(const dsl::Param& param, const dsl::Argument& argument) {
  return static_cast<size_t>(argument.extent * dsl::info(param.type.element).bytes);
}

std::vector<TestArgument> copies_of(const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments) {
  std::vector<TestArgument> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!kernel.params[i].type.pointer) {
      out.push_back(scalar_bits(arguments[i].bits));
      continue;
    }
    const auto* begin = static_cast<const std::byte*>(arguments[i].data);
    out.push_back({.buffer = {begin, begin + bytes_of(kernel.params[i], arguments[i])}, .is_buffer = true});
  }
  return out;
}

// Of arguments that share memory, what was written to one is not written over by what another had.
void write_back(std::span<const TestArgument> before, std::span<const TestArgument> after,
                std::span<const dsl::Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto* to = static_cast<std::byte*>(arguments[i].data);
    for (size_t at = 0; at < after[i].buffer.size(); ++at) {
      if (after[i].buffer[at] != before[i].buffer[at]) to[at] = after[i].buffer[at];
    }
  }
}

}  // namespace

LaunchKernel compiled_launches(const graph::Plan& plan, Code code) {
  return [&plan, code, facts = graph::facts_of(plan)](const graph::PlannedKernel& planned,
                                                      std::span<const dsl::Argument> arguments) -> Result<void> {
    const dsl::Kernel& kernel = planned.kernel;
    const std::vector<TestArgument> before = copies_of(kernel, arguments);
    auto config = dsl::complete_constexprs(kernel, planned.constexprs, plan.target);
    if (!config) return config.error();
    const auto number = static_cast<size_t>(&planned - plan.kernels.data());
    auto artifact =
        compile_once(kernel, *config, code == Code::kSpecial ? facts_of(kernel, before) : facts[number], plan.target);
    if (!artifact) return artifact.error();
    std::vector<TestArgument> after = before;
    if (auto done = run_compiled(kernel, *artifact, after); !done) return done;
    write_back(before, after, arguments);
    return {};
  };
}

}  // namespace kiln::test
