// A launch: the grid from the arguments, the arguments into the entry's parameter block, the programs on threads.
#include <cstring>

#include "kiln/dsl/instantiate.h"
#include "variant.h"

namespace kiln::client {
namespace {

// Int parameters by index, for the grid.
dsl::Bindings bindings_of(const dsl::Kernel& kernel, std::span<const Argument> arguments) {
  dsl::Bindings bindings;
  bindings.params.resize(kernel.params.size());
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    if (type.pointer || dsl::is_float(type.element)) continue;
    const dsl::ElementTypeInfo& element = dsl::info(type.element);
    const int shift = 64 - element.bits;
    const uint64_t high = arguments[i].bits << shift;
    bindings.params[i] = element.is_signed ? static_cast<int64_t>(high) >> shift : static_cast<int64_t>(high >> shift);
  }
  return bindings;
}

Result<std::array<uint32_t, 3>> grid_of(const Variant& variant, const dsl::Kernel& kernel,
                                        std::span<const Argument> arguments, const LaunchOptions& options) {
  std::array<dsl::Expr, 3> grid = variant.grid;
  if (options.grid) {
    for (size_t axis = 0; axis < 3; ++axis) grid[axis] = dsl::Expr(int64_t{(*options.grid)[axis]});
  }
  auto out = dsl::evaluate_grid(grid, bindings_of(kernel, arguments));
  if (!out) out.error().message = "kernel `" + kernel.name + "`: " + out.error().message;
  return out;
}

// Room on the stack for the parameters of any ordinary kernel, else on the heap.
class ParamBlock {
 public:
  explicit ParamBlock(size_t bytes) {
    if (bytes > inline_.size()) heap_.resize(bytes);
  }
  std::byte* data() { return heap_.empty() ? inline_.data() : heap_.data(); }

 private:
  alignas(8) std::array<std::byte, 256> inline_;
  std::vector<std::byte> heap_;
};

Result<void> launch_compiled(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                             std::span<const Argument> arguments, CpuLaunch launch) {
  ParamBlock block(layout.bytes);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool pointer = kernel.params[i].type.pointer;
    const void* from = pointer ? static_cast<const void*>(&arguments[i].data) : &arguments[i].bits;
    std::memcpy(block.data() + layout.slots[i].offset, from, layout.slots[i].size);
  }
  launch.entry = variant.module->entry();
  launch.params = block.data();
  launch.scratch_bytes = variant.scratch_bytes;
  const int32_t code = run_programs(launch);
  if (code == 0) return {};
  if (code == kNoScratchMemory) {
    return error(ErrorCode::kOutOfMemory, "kernel `" + kernel.name + "`: no memory for " +
                                              std::to_string(launch.scratch_bytes) + " bytes of scratch a thread");
  }
  return internal_error("kernel `" + kernel.name + "` failed with code " + std::to_string(code));
}

}  // namespace

Result<void> launch_variant(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                            std::span<const Argument> arguments, const LaunchOptions& options) {
  if (arguments.size() != kernel.params.size()) {
    return invalid_argument("kernel `" + kernel.name + "` takes " + std::to_string(kernel.params.size()) +
                            " arguments, not " + std::to_string(arguments.size()));
  }
  auto grid = grid_of(variant, kernel, arguments, options);
  if (!grid) return grid.error();
  if (variant.concrete) return dsl::interpret(*variant.concrete, arguments, *grid, {.print = options.print});
  CpuLaunch launch;
  launch.grid = *grid;
  launch.threads = options.threads;
  return launch_compiled(variant, kernel, layout, arguments, launch);
}

}  // namespace kiln::client
