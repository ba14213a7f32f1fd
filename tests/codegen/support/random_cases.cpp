#include "random_cases.h"

#include <cstdlib>

#include "cuda_device.h"
#include "harness.h"
#include "random/facts.h"
#include "supported.h"

namespace kiln::test {
namespace {

// The op alone.
dsl::Kernel kernel_of(const dsl::Kernel& kernel, const dsl::Op& op) {
  dsl::Kernel out;
  out.options = kernel.options;
  out.values = kernel.values;
  out.body.ops = {op};
  return out;
}

// docs/reference/ops.md: NVIDIA's units may take subnormals for zero here.
bool may_flush_subnormals(const dsl::Kernel& kernel, const dsl::Op& op) {
  return on_cuda() && op.code == dsl::OpCode::kAtomicRmw &&
         dsl::int_attr(op, 0) == static_cast<int64_t>(dsl::AtomicKind::kAdd) &&
         kernel.type(op.operands[1]).element == dsl::ElementType::kF32;
}

}  // namespace

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

random_kernel::Options cpu_options() {
  random_kernel::Options options;
  options.aligned_buffers = false;  // buffers end at a page here
  if (on_cuda()) options.f8_sum_bits = 14;
  options.allowed = [](const dsl::Kernel& kernel, const dsl::Op& op) {
    return codegen::check_supported(kernel_of(kernel, op), {}, "cpu").ok() && !may_flush_subnormals(kernel, op);
  };
  return options;
}

Ran run_case(const random_kernel::Case& test, const std::string& target) {
  auto expected = random_kernel::interpreted(test);
  if (!expected) return {"interpreter: " + expected.error().message};
  auto artifact = compile(test.kernel, test.config, test.facts, target);
  if (is_refused(artifact)) return {"", true};
  if (!artifact) return {artifact.error().message};
  std::vector<TestArgument> arguments;
  for (const random_kernel::Input& input : test.inputs)
    arguments.push_back({input.buffer, input.bits, input.is_buffer});
  if (auto ran = run_compiled(test.kernel, *artifact, arguments); !ran) return {ran.error().message};
  std::vector<random_kernel::Input> actual;
  for (TestArgument& argument : arguments)
    actual.push_back({std::move(argument.buffer), argument.bits, argument.is_buffer});
  return {random_kernel::differences(test, actual, *expected)};
}

}  // namespace kiln::test
