#include "nvptx/vendor.h"

#include "nvptx/generate.h"
#include "nvptx/grid_wait.h"
#include "nvptx/occupancy.h"

namespace kiln::codegen::nvptx {
namespace {

void initialise() {
  initialise_llvm();
  load_assembler();
}

Result<void> check_target(const std::string& name) {
  auto target = cuda_target(name);
  return target ? Result<void>() : target.error();
}

abi::Device describe(const Generated& generated, int capability) {
  const gpu::Lowered& first = generated.plan.first;
  abi::Device device;
  device.threads = first.threads;
  device.shared_bytes = first.shared_bytes;
  device.waits = capability >= kLeastWaitingCapability;
  if (first.persistent) {
    device.persistent = blocks_at_once(generated.resources, {first.threads, first.shared_bytes}, capability);
  }
  if (first.cluster > 1) device.cluster = {first.cluster, 1, 1};
  device.tensor_maps = first.tensor_maps;
  if (const auto& resources = generated.resources) {
    device.registers = resources->registers;
    device.spill_bytes = resources->spill_store_bytes + resources->spill_load_bytes;
    device.assembler_us = resources->assembler_us;
    device.warnings = resources->warnings;
  }
  return device;
}

Result<gpu::Generated> generate_code(const dsl::Kernel& kernel, const std::string& target_name,
                                     const dsl::ConstexprValues& config, gpu::Effort effort, const std::string& emit,
                                     const gpu::PhaseBegin& begin) {
  auto target = cuda_target(target_name);
  if (!target) return target.error();
  auto generated = generate(kernel, **target, config, effort, emit, begin);
  if (!generated) return generated.error();
  abi::Device device = describe(*generated, (*target)->capability);
  return gpu::Generated{std::move(generated->plan), std::move(generated->code), std::move(generated->emitted),
                        std::move(device)};
}

}  // namespace

const gpu::Vendor& vendor() {
  static const gpu::Vendor out{.family = "cuda",
                               .forms = {"cubin", "ptx", "asm", "llvm"},
                               .initialise = initialise,
                               .start_helpers = start_assembler,
                               .check_target = check_target,
                               .generate = generate_code};
  return out;
}

}  // namespace kiln::codegen::nvptx
