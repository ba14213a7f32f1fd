// A launch: the grid from the arguments, the arguments into the entry's parameter block, the programs on threads.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "cpu/cpu_driver.h"
#include "gpu/device_state.h"
#include "gpu/kernel_code.h"
#include "kiln/dsl/conditions.h"
#include "kiln/dsl/instantiate.h"
#include "lifetime.h"
#include "profile/recorder.h"
#include "variant.h"

namespace kiln::client {
namespace {

// What expressions of the launcher mention. The memory is the thread's, so that a launch need not ask for any; the next
// launch overwrites it.
const dsl::Bindings& bindings_of(const Variant& variant, const dsl::Kernel& kernel,
                                 std::span<const Argument> arguments) {
  auto& bindings = of_thread<dsl::Bindings>();
  bindings.constexprs = variant.config;
  dsl::bind_ints(kernel, arguments, bindings.params);
  return bindings;
}

Result<std::array<uint32_t, 3>> grid_of(const Variant& variant, const dsl::Kernel& kernel,
                                        const dsl::Bindings& bindings, const LaunchOptions& options) {
  std::array<dsl::Expr, 3> given;
  if (options.grid) {
    for (size_t axis = 0; axis < 3; ++axis) given[axis] = dsl::Expr(int64_t{(*options.grid)[axis]});
  }
  auto out = dsl::evaluate_grid(options.grid ? given : variant.grid, bindings, &kernel);
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

// Elements behind each pointer, for kernels that check their bounds; below 0 where nobody knows.
std::vector<int64_t> extents_of(const dsl::Kernel& kernel, std::span<const Argument> arguments) {
  std::vector<int64_t> out;
  if (!kernel.options.check_bounds) return out;
  for (const Argument& argument : arguments) out.push_back(extent_of(argument));
  return out;
}

// What a print callback needs to make a record.
struct PrintSink {
  const Variant& variant;
  const LaunchOptions& options;
  std::array<uint32_t, 3> grid;
};

void print(void* data, uint32_t number, uint64_t program, const void* const* values) {
  const PrintSink& sink = *static_cast<const PrintSink*>(data);
  if (number >= sink.variant.reports.prints.size()) return;
  sink.options.print(print_record(sink.variant.reports.prints[number], sink.grid, program, values));
}

Error no_memory(const dsl::Kernel& kernel, uint64_t bytes, const char* what) {
  return error(ErrorCode::kOutOfMemory,
               "kernel `" + kernel.name + "`: no memory for " + std::to_string(bytes) + " bytes of " + what);
}

// The steps of the variant's plan, one after the other.
Result<void> run_steps(const Variant& variant, const dsl::Kernel& kernel, std::span<const Argument> arguments,
                       CpuLaunch launch) {
  const std::array<uint32_t, 3> grid = launch.grid;
  const uint64_t programs = uint64_t{grid[0]} * grid[1] * grid[2];
  ThreadMemory workspace(ThreadMemory::Use::kWorkspace);
  uint64_t bytes = 0;
  if (variant.workspace_bytes > 0) {
    if (!__builtin_mul_overflow(variant.workspace_bytes, programs, &bytes)) launch.workspace = workspace.get(bytes);
    if (launch.workspace == nullptr) return no_memory(kernel, bytes, "workspace");
  }
  for (const LaunchStep& step : variant.steps) {
    const uint64_t wide = grid[0] * step.chunks;
    if (wide > INT32_MAX) return invalid_argument("kernel `" + kernel.name + "`: the grid is too large for its plan");
    launch.entry = step.entry;
    launch.grid[0] = static_cast<uint32_t>(wide);
    kiln_failure failure{};
    const int32_t code = run_programs(launch, &failure);
    if (code == kNoScratchMemory) return no_memory(kernel, launch.scratch_bytes, "scratch a thread");
    if (code != 0) return failure_of(kernel, variant.reports, code, failure, grid, arguments);
  }
  return {};
}

Result<void> launch_compiled(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                             std::span<const Argument> arguments, const LaunchOptions& options,
                             const std::array<uint32_t, 3>& grid) {
  ParamBlock block(layout.bytes);
  pack_arguments(kernel, layout, arguments, block.data());
  const std::vector<int64_t> extents = extents_of(kernel, arguments);
  PrintSink sink{variant, options, grid};
  CpuLaunch launch;
  launch.params = block.data();
  launch.grid = grid;
  launch.threads = options.threads;
  launch.scratch_bytes = variant.scratch_bytes;
  launch.extents = extents.empty() ? nullptr : extents.data();
  if (options.print) {
    launch.print = print;
    launch.print_data = &sink;
  }
  return run_steps(variant, kernel, arguments, launch);
}

// What a kernel prints is seen, unless the caller takes it.
void print_to_stderr(const dsl::PrintRecord& record) { std::fputs(dsl::to_string(record).c_str(), stderr); }

bool prints(const Variant& variant) { return variant.concrete || !variant.reports.prints.empty(); }

Result<void> launch_on_cpu(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                           std::span<const Argument> arguments, const LaunchOptions& options,
                           const std::array<uint32_t, 3>& grid) {
  if (variant.concrete) return dsl::interpret(*variant.concrete, arguments, grid, {.print = options.print});
  return launch_compiled(variant, kernel, layout, arguments, options, grid);
}

// What a launch is, beside its kernel's name. Bytes are of arrays whose extents are known.
void describe(profile::Span& span, const Variant& variant, const dsl::Kernel& kernel,
              std::span<const Argument> arguments, const std::array<uint32_t, 3>& grid) {
  span.grid = grid;
  span.device = variant.concrete ? "interp" : cpu::kKind;  // of a GPU its launcher says which
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    const int64_t extent = type.pointer ? extent_of(arguments[i]) : 0;
    if (extent > 0) span.bytes += static_cast<uint64_t>(extent) * static_cast<uint64_t>(dsl::info(type.element).bytes);
  }
}

// The same work, of which it is noted when the stream did it.
std::function<Result<void>()> noted(profile::Span span, gpu::Handle stream, std::function<Result<void>()> work) {
  span.on_device = true;
  span.track = reinterpret_cast<uint64_t>(stream);
  return [span = std::move(span), work = std::move(work)] {
    profile::Span done = span;
    done.begin_ns = profile_clock();
    auto worked = work();
    done.end_ns = profile_clock();
    note(std::move(done));
    return worked;
  };
}

// `span`: null where nobody profiles.
Result<void> queue_on_cpu(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                          std::span<const Argument> arguments, LaunchOptions options,
                          const std::array<uint32_t, 3>& grid, const std::shared_ptr<const void>& owner,
                          profile::Span* span) {
  const gpu::Handle stream = std::exchange(options.stream, nullptr)->native();
  if (stream == nullptr) return launch_on_cpu(variant, kernel, layout, arguments, options, grid);
  if (options.threads == 0) options.threads = cpu::core_count(stream);
  std::vector<Argument> kept(arguments.begin(), arguments.end());
  auto work = [owner, &variant, &kernel, &layout, kept = std::move(kept), options = std::move(options), grid] {
    return launch_on_cpu(variant, kernel, layout, kept, options, grid);
  };
  if (span == nullptr) return cpu::push(stream, std::move(work));
  span->flow = next_flow();
  return cpu::push(stream, noted(*span, stream, std::move(work)));
}

Result<void> launch_grid(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                         std::span<const Argument> arguments, const dsl::Bindings& bindings,
                         const LaunchOptions& options, const std::array<uint32_t, 3>& grid,
                         const std::shared_ptr<const void>& owner) {
  TimedLaunch timed(kernel.name);
  if (timed.span() != nullptr) [[unlikely]]
    describe(*timed.span(), variant, kernel, arguments, grid);
  if (variant.device_code) {
    return gpu::launch(*variant.device_code, kernel, layout, arguments, bindings, grid, options, timed.span());
  }
  if (options.stream != nullptr) {
    return queue_on_cpu(variant, kernel, layout, arguments, options, grid, owner, timed.span());
  }
  return launch_on_cpu(variant, kernel, layout, arguments, options, grid);
}

// A stream is of a device that runs the kernel's code.
Result<void> check_stream(const Variant& variant, const dsl::Kernel& kernel, const Stream& stream) {
  const bool on_cpu = stream.device().info().kind == cpu::kKind;
  if (on_cpu && variant.device_code) {
    return invalid_argument("kernel `" + kernel.name + "` was compiled for a GPU, and cannot run on a CPU's stream");
  }
  if (!on_cpu && !variant.device_code) {
    return invalid_argument("kernel `" + kernel.name + "` was compiled for no GPU, and cannot run on a GPU's stream");
  }
  const gpu::StreamState& state = *stream.state();
  return on_cpu ? state.device.driver->check_stream(state.handle) : Result<void>();
}

}  // namespace

Result<void> launch_variant(const Variant& variant, const dsl::Kernel& kernel, const ParamLayout& layout,
                            std::span<const Argument> arguments, const LaunchOptions& options,
                            const std::shared_ptr<const void>& owner) {
  if (arguments.size() != kernel.params.size()) {
    return invalid_argument("kernel `" + kernel.name + "` takes " + std::to_string(kernel.params.size()) +
                            " arguments, not " + std::to_string(arguments.size()));
  }
  const dsl::Bindings& bindings = bindings_of(variant, kernel, arguments);
  if (auto met = dsl::check_conditions(kernel, bindings); !met) return met;
  auto grid = grid_of(variant, kernel, bindings, options);
  if (!grid) return grid.error();
  if (options.stream != nullptr) {
    if (auto fits = check_stream(variant, kernel, *options.stream); !fits) return fits;
  }
  if ((*grid)[0] == 0 || (*grid)[1] == 0 || (*grid)[2] == 0) return {};
  if (options.print || !prints(variant)) {
    return launch_grid(variant, kernel, layout, arguments, bindings, options, *grid, owner);
  }
  LaunchOptions seen = options;
  seen.print = print_to_stderr;
  return launch_grid(variant, kernel, layout, arguments, bindings, seen, *grid, owner);
}

}  // namespace kiln::client
