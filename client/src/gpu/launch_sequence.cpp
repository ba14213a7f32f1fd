#include "launch_sequence.h"

#include <stdexcept>

#include "kiln/target/gpu.h"

namespace kiln::client::gpu {
namespace {

constexpr int64_t kMaxShared = 16 << 20;  // more is a damaged artifact, not a device to come
constexpr int64_t kMaxCluster = 64;

// Within this file a field that is not as it must be is an exception.
[[noreturn]] void bad(const std::string& what) { throw std::invalid_argument(what); }

template <class T = uint32_t>
T within(std::optional<int64_t> value, const char* what, int64_t least, int64_t most) {
  if (!value || *value < least || *value > most) bad(what);
  return static_cast<T>(*value);
}

// A step may have threads and shared memory of its own.
LaunchStep step_of(const abi::LaunchStep& step, const abi::Device& device) {
  LaunchStep out;
  out.entry = step.entry;
  if (out.entry.empty()) bad("a stage without an entry");
  out.chunks = within<uint64_t>(step.chunks, "bad chunks", 1, INT32_MAX);
  out.threads =
      within(step.threads ? step.threads : device.threads, "a bad number of threads", 1, target::kMostThreads);
  out.shared_bytes =
      within(step.shared_bytes ? step.shared_bytes : device.shared_bytes, "bad shared_bytes", 0, kMaxShared);
  return out;
}

// Which fields there are, by the metadata.
abi::LaunchCounts counts_of(const LaunchSequence& sequence, const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  using enum abi::LaunchField;
  abi::LaunchCounts out;
  for (const auto& [field, offset] : metadata.offsets) out[field] = 1;
  out[kWorkspace] = metadata.workspace_bytes ? 1 : 0;
  out[kTensorMaps] = static_cast<uint32_t>(sequence.tensor_maps.size());
  out[kExtents] *= abi::pointer_count(kernel);
  out[kGrid] *= 3;
  return out;
}

// The compiler says where a field is; it must be where this client puts it.
void check_offsets(const abi::LaunchBlock& block, const abi::Metadata& metadata) {
  for (const auto& [field, name] : abi::kLaunchFieldNames) {
    const auto found = metadata.offsets.find(field);
    if (found == metadata.offsets.end()) continue;
    const auto offset = within(found->second, (std::string("a bad ") + name).c_str(), 0, kMaxBlockBytes);
    if (block.offset(field) != offset) bad(std::string("a ") + name + " that is not behind the others");
  }
}

void check_presence(const LaunchSequence& sequence) {
  if ((sequence.programs > 1) != sequence.programs_offset.has_value())
    bad("blocks of several programs without their number");
  if ((sequence.persistent > 0) != sequence.grid_offset.has_value())
    bad("persistent blocks without the extents of their grid");
  if (sequence.queue_offset && sequence.persistent == 0) bad("a queue_param of blocks that are not persistent");
  if (sequence.offsets.size() > kMaxOffsets) bad("more than " + std::to_string(kMaxOffsets) + " parameters");
  if (sequence.block_bytes > kMaxBlockBytes)
    bad("more than " + std::to_string(kMaxBlockBytes) + " bytes of parameters");
}

void lay_out(LaunchSequence& sequence, const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  using enum abi::LaunchField;
  if (metadata.workspace_bytes) {
    sequence.workspace_bytes = within<uint64_t>(metadata.workspace_bytes, "bad workspace_bytes", 1, INT64_MAX);
  }
  const abi::ParamLayout params = abi::lay_out_params(kernel);
  const abi::LaunchBlock block = abi::lay_out_launch_block(params.bytes, counts_of(sequence, kernel, metadata));
  check_offsets(block, metadata);
  sequence.block_bytes = block.bytes;
  sequence.workspace_offset = block.offset(kWorkspace);
  sequence.failure_offset = block.offset(kFailure);
  sequence.extents_offset = block.offset(kExtents);
  sequence.print_offset = block.offset(kPrint);
  sequence.programs_offset = block.offset(kPrograms);
  sequence.grid_offset = block.offset(kGrid);
  sequence.queue_offset = block.offset(kQueue);
  if (!sequence.tensor_maps.empty()) {
    for (const abi::ParamSlot& slot : params.slots) sequence.offsets.push_back(slot.offset);
    for (const abi::LaunchParam& param : block.tail) {
      sequence.offsets.push_back(param.slot.offset);
      if (param.field == kTensorMaps) sequence.tensor_maps[param.index].block_offset = param.slot.offset;
    }
  }
  check_presence(sequence);
}

LaunchSequence plan_of(const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  LaunchSequence sequence;
  sequence.target = metadata.target;
  sequence.emit = metadata.emit;
  if (sequence.target.empty()) bad("no `target`");
  if (sequence.emit != "cubin" && sequence.emit != "ptx" && sequence.emit != "hsaco") {
    bad("no code for a device but `" + sequence.emit.substr(0, 20) + "`");
  }
  if (!metadata.device) bad("no `device`");
  const abi::Device& device = *metadata.device;
  for (const abi::LaunchStep& step : metadata.plan) sequence.steps.push_back(step_of(step, device));
  if (sequence.steps.empty()) sequence.steps.push_back(step_of({metadata.entry, 1, {}, {}}, device));
  for (size_t axis = 0; device.cluster && axis < 3; ++axis) {
    sequence.cluster[axis] = within((*device.cluster)[axis], "a bad cluster", 1, kMaxCluster);
  }
  sequence.programs = within(device.programs.value_or(1), "bad programs", 1, target::kMostThreads);
  if (device.persistent) {
    sequence.persistent = within(device.persistent, "a bad persistent", 1, target::kMostThreads);
    if (sequence.programs != 1 || sequence.steps.size() != 1 || metadata.workspace_bytes) {
      bad("persistent blocks of several programs or stages");
    }
  }
  sequence.waits = device.waits;
  for (const abi::TensorMap& map : device.tensor_maps) {
    if (map.param >= kernel.params.size() || !kernel.params[map.param].type.pointer) bad("a tensor map of no pointer");
    sequence.tensor_maps.push_back({map, 0});
  }
  lay_out(sequence, kernel, metadata);
  return sequence;
}

}  // namespace

Result<LaunchSequence> parse_launches(const dsl::Kernel& kernel, const abi::Metadata& metadata) try {
  return plan_of(kernel, metadata);
} catch (const std::exception& problem) {
  return internal_error(std::string("has ") + problem.what());
}

}  // namespace kiln::client::gpu
