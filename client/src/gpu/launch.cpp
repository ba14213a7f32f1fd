// A launch on a GPU: arguments, workspace, tensor maps and what reports go to into one block on the stack, then a call
// of the driver for each step. No allocation, and no lock but for sequences with a workspace, which a stream has one
// of.
#include <cstring>

#include "../profile/device_times.h"
#include "../variant.h"
#include "kernel_code.h"
#include "vendor.h"

namespace kiln::client::gpu {
namespace {

std::string numbers(std::span<const uint64_t> values) {
  std::string out;
  for (uint64_t value : values) out += (out.empty() ? "" : "×") + std::to_string(value);
  return out;
}

class Launch {
 public:
  Launch(const KernelCode& code, const LoadedKernel& loaded, StreamState& stream, const dsl::Kernel& kernel,
         std::span<const dsl::Argument> arguments, const dsl::Bindings& bindings, const std::array<uint32_t, 3>& grid,
         const LaunchOptions& options)
      : sequence_(code.sequence()),
        loaded_(loaded),
        stream_(stream),
        kernel_(kernel),
        arguments_(arguments),
        bindings_(bindings),
        grid_(grid),
        options_(options) {}

  Result<void> run(const ParamLayout& layout) {
    pack_arguments(kernel_, layout, arguments_, block_);
    for (const TensorMapPlan& map : sequence_.tensor_maps) {
      if (auto encoded = encode(map); !encoded) return encoded;
    }
    if (RecordingState* recording = stream_.recording.load(std::memory_order_acquire)) record(*recording);
    put_reports();
    if (sequence_.programs_offset) put_programs(*sequence_.programs_offset);
    if (sequence_.grid_offset) std::memcpy(block_ + *sequence_.grid_offset, grid_.data(), sizeof grid_);
    if (sequence_.queue_offset) {
      if (auto counted = put_queue_counter(*sequence_.queue_offset); !counted) return counted;
    }
    stream_.last.set(loaded_.label, grid_);
    return sequence_.workspace_offset ? with_workspace() : steps();
  }

 private:
  void put(uint32_t offset, void* pointer) { std::memcpy(block_ + offset, &pointer, sizeof pointer); }

  // Where the kernel tells what fails, or prints.
  void put_reports() {
    if (sequence_.failure_offset) put(*sequence_.failure_offset, loaded_.failure_record);
    if (sequence_.extents_offset) put_extents(*sequence_.extents_offset);
    if (sequence_.print_offset) put(*sequence_.print_offset, options_.print ? ring_for(options_.print) : nullptr);
    if (sequence_.failure_offset || sequence_.print_offset) stream_.checked.store(true, std::memory_order_release);
  }

  void put_programs(uint32_t offset) {
    const uint64_t programs = grid_[0];
    std::memcpy(block_ + offset, &programs, sizeof programs);
  }

  Result<void> put_queue_counter(uint32_t offset) {
    RecordingState* recording = stream_.recording.load(std::memory_order_acquire);
    auto counter = (recording != nullptr ? recording->queue_counter : stream_.queue_counter).get();
    if (!counter) return failed(error(counter.error().code, "the counter of its programs: " + counter.error().message));
    put(offset, *counter);
    return {};
  }

  // Of each pointer the elements behind it, below 0 where nobody knows.
  void put_extents(uint32_t offset) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!kernel_.params[i].type.pointer) continue;
      const int64_t extent = extent_of(arguments_[i]);
      std::memcpy(block_ + offset, &extent, sizeof extent);
      offset += sizeof extent;
    }
  }

  void* ring_for(const PrintSink& sink) {
    KernelRing& ring = *loaded_.prints;
    std::lock_guard lock(ring.mutex);
    ring.sink = sink;
    return ring.device();
  }

  void record(RecordingState& recording) {
    std::lock_guard lock(recording.mutex);
    recording.pinned.push_back(loaded_.shared_from_this());
    recording.checked |= sequence_.failure_offset.has_value() || sequence_.print_offset.has_value();
  }

  Result<void> encode(const TensorMapPlan& map) {
    TensorMapArguments out;
    out.element = map.element;
    out.rank = static_cast<uint32_t>(map.dims.size());
    for (size_t axis = 0; axis < map.box.size(); ++axis) out.box[axis] = static_cast<uint32_t>(map.box[axis]);
    out.swizzle_bytes = static_cast<uint32_t>(map.swizzle_bytes);
    out.fills_nan = map.fills_nan;
    int64_t offset = 0;
    bool fine = value_of(map.offset, offset);
    for (size_t axis = 0; axis < map.dims.size(); ++axis) fine &= at_least(1, map.dims[axis], out.dims[axis]);
    for (size_t axis = 0; axis < map.strides_bytes.size(); ++axis) {
      fine &= at_least(0, map.strides_bytes[axis], out.strides_bytes[axis]);
    }
    const auto bytes = static_cast<uint64_t>(offset) * static_cast<uint64_t>(dsl::info(map.element).bytes);
    out.address = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(arguments_[map.param].data) + bytes);
    if (!fine)
      return failed(invalid_argument(in_words(map, out) + ": its extents must be above 0, its strides not below"));
    auto encoded = loaded_.device->driver->encode_tensor_map(out, block_ + map.block_offset);
    if (encoded) [[likely]]
      return {};
    return failed(error(encoded.error().code, in_words(map, out) + ": " + encoded.error().message));
  }

  bool value_of(const dsl::Expr& expr, int64_t& out) const {
    auto value = expr.evaluate(bindings_);
    if (value) out = *value;
    return value.ok();
  }
  bool at_least(int64_t least, const dsl::Expr& expr, uint64_t& out) const {
    int64_t value = 0;
    if (!value_of(expr, value)) return false;
    out = static_cast<uint64_t>(value);
    return value >= least;
  }

  std::string in_words(const TensorMapPlan& map, const TensorMapArguments& a) const {
    const auto rank = map.dims.size();
    return "the tensor map of `" + kernel_.params[map.param].name + "`, " + numbers({a.dims.data(), rank}) + " " +
           std::string(dsl::info(map.element).name) + " at address " +
           std::to_string(reinterpret_cast<uintptr_t>(a.address)) +
           (rank > 1 ? ", strides of " + numbers({a.strides_bytes.data(), rank - 1}) + " bytes" : "");
  }

  // One stream has one workspace: the steps of another launch must not come in between.
  Result<void> with_workspace() {
    std::lock_guard whole_sequence(stream_.sequence_mutex);
    const uint64_t programs = uint64_t{grid_[0]} * grid_[1] * grid_[2];
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(sequence_.workspace_bytes, programs, &bytes)) {
      return failed(error(ErrorCode::kOutOfMemory, "no device has memory for its workspace"));
    }
    RecordingState* recording = stream_.recording.load(std::memory_order_acquire);
    auto memory = (recording != nullptr ? recording->workspace : stream_.workspace).get(bytes);
    if (!memory) {
      return failed(
          error(memory.error().code, "workspace of " + std::to_string(bytes) + " bytes: " + memory.error().message));
    }
    put(*sequence_.workspace_offset, *memory);
    return steps();
  }

  Result<void> steps() {
    for (size_t i = 0; i < sequence_.steps.size(); ++i) {
      if (auto queued = launch_step(sequence_.steps[i], loaded_.steps[i]); !queued) return queued;
    }
    return {};
  }

  Result<void> launch_step(const LaunchStep& step, Handle kernel) {
    const bool is_persistent = sequence_.persistent > 0;
    const uint64_t programs = uint64_t{grid_[0]} * grid_[1] * grid_[2];
    if (is_persistent && programs > INT32_MAX) return failed(invalid_argument("more than 2^31-1 programs"));
    const uint64_t blocks = is_persistent ? persistent_blocks(programs)
                                          : (uint64_t{grid_[0]} + sequence_.programs - 1) / sequence_.programs;
    const uint64_t wide = blocks * step.chunks;
    if (wide > INT32_MAX) return failed(invalid_argument("the grid is too large for its plan"));
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.stream = stream_.handle;
    launch.grid = {static_cast<uint32_t>(wide), is_persistent ? 1 : grid_[1], is_persistent ? 1 : grid_[2]};
    launch.cluster = sequence_.cluster;
    launch.early = sequence_.waits;
    launch.threads = step.threads;
    launch.shared_bytes = step.shared_bytes;
    launch.block = block_;
    launch.block_bytes = sequence_.block_bytes;
    launch.offsets = sequence_.offsets;
    for (size_t axis = 0; axis < 3; ++axis) {
      if (sequence_.cluster[axis] == 1 || launch.grid[axis] % sequence_.cluster[axis] == 0) continue;
      return failed(invalid_argument("the grid is no multiple of the cluster, " + grid_text(sequence_.cluster)));
    }
    auto queued = loaded_.device->driver->launch(launch);
    if (queued) [[likely]]
      return {};
    return failed(queued.error());
  }

  // As many as the device runs at once, or as there are programs; whole clusters.
  uint64_t persistent_blocks(uint64_t programs) const {
    const uint64_t cluster = sequence_.cluster[0];
    const uint64_t at_once =
        uint64_t{sequence_.persistent} * std::max(1u, loaded_.device->driver->info().multiprocessors);
    const uint64_t wanted = (programs + cluster - 1) / cluster * cluster;
    return std::min(wanted, std::max(at_once / cluster * cluster, cluster));
  }

  Error failed(Error error) const {
    return loaded_.device->explain(std::move(error), *loaded_.label + ", grid " + grid_text(grid_) + " of " +
                                                         std::to_string(sequence_.steps[0].threads) + " threads,");
  }

  const LaunchSequence& sequence_;
  const LoadedKernel& loaded_;
  StreamState& stream_;
  const dsl::Kernel& kernel_;
  const std::span<const dsl::Argument> arguments_;
  const dsl::Bindings& bindings_;
  const std::array<uint32_t, 3>& grid_;
  const LaunchOptions& options_;
  alignas(kTensorMapAlignment) std::byte block_[kMaxBlockBytes];  // written as far as it is used
};

}  // namespace

Result<void> launch(const KernelCode& code, const dsl::Kernel& kernel, const ParamLayout& layout,
                    std::span<const dsl::Argument> arguments, const dsl::Bindings& bindings,
                    const std::array<uint32_t, 3>& grid, const LaunchOptions& options, profile::Span* span) {
  StreamState& on = options.stream != nullptr ? *options.stream->state() : code.default_stream();
  if (on.device.birth.of_parent()) return not_after_fork();
  auto loaded = code.on(on.device);
  if (!loaded) return loaded.error();
  if (span != nullptr) [[unlikely]]
    span->device = on.device.place;
  const DeviceTimed timed(on, span);
  return Launch(code, **loaded, on, kernel, arguments, bindings, grid, options).run(layout);
}

}  // namespace kiln::client::gpu
