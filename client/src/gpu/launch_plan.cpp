#include "launch_plan.h"

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

// A stage may have threads and shared memory of its own.
StagePlan stage_of(const abi::LaunchStage& stage, const abi::Device& device) {
  StagePlan out;
  out.entry = stage.entry;
  if (out.entry.empty()) bad("a stage without an entry");
  out.chunks = within<uint64_t>(stage.chunks, "bad chunks", 1, INT32_MAX);
  out.threads =
      within(stage.threads ? stage.threads : device.threads, "a bad number of threads", 1, target::kMostThreads);
  out.shared_bytes =
      within(stage.shared_bytes ? stage.shared_bytes : device.shared_bytes, "bad shared_bytes", 0, kMaxShared);
  return out;
}

// Which fields there are, by the metadata.
abi::LaunchCounts counts_of(const LaunchPlan& plan, const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  using enum abi::LaunchField;
  abi::LaunchCounts out;
  for (const auto& [field, offset] : metadata.offsets) out[field] = 1;
  out[kWorkspace] = metadata.workspace_bytes ? 1 : 0;
  out[kTensorMaps] = static_cast<uint32_t>(plan.tensor_maps.size());
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

void check_presence(const LaunchPlan& plan) {
  if ((plan.programs > 1) != plan.programs_offset.has_value()) bad("blocks of several programs without their number");
  if ((plan.persistent > 0) != plan.grid_offset.has_value()) bad("persistent blocks without the extents of their grid");
  if (plan.queue_offset && plan.persistent == 0) bad("a queue_param of blocks that are not persistent");
  if (plan.offsets.size() > kMaxOffsets) bad("more than " + std::to_string(kMaxOffsets) + " parameters");
  if (plan.block_bytes > kMaxBlockBytes) bad("more than " + std::to_string(kMaxBlockBytes) + " bytes of parameters");
}

void lay_out(LaunchPlan& plan, const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  using enum abi::LaunchField;
  if (metadata.workspace_bytes) {
    plan.workspace_bytes = within<uint64_t>(metadata.workspace_bytes, "bad workspace_bytes", 1, INT64_MAX);
  }
  const abi::ParamLayout params = abi::lay_out_params(kernel);
  const abi::LaunchBlock block = abi::lay_out_launch_block(params.bytes, counts_of(plan, kernel, metadata));
  check_offsets(block, metadata);
  plan.block_bytes = block.bytes;
  plan.workspace_offset = block.offset(kWorkspace);
  plan.failure_offset = block.offset(kFailure);
  plan.extents_offset = block.offset(kExtents);
  plan.print_offset = block.offset(kPrint);
  plan.programs_offset = block.offset(kPrograms);
  plan.grid_offset = block.offset(kGrid);
  plan.queue_offset = block.offset(kQueue);
  if (!plan.tensor_maps.empty()) {
    for (const abi::ParamSlot& slot : params.slots) plan.offsets.push_back(slot.offset);
    for (const abi::LaunchParam& param : block.tail) {
      plan.offsets.push_back(param.slot.offset);
      if (param.field == kTensorMaps) plan.tensor_maps[param.index].block_offset = param.slot.offset;
    }
  }
  check_presence(plan);
}

LaunchPlan plan_of(const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  LaunchPlan plan;
  plan.target = metadata.target;
  plan.emit = metadata.emit;
  if (plan.target.empty()) bad("no `target`");
  if (plan.emit != "cubin" && plan.emit != "ptx" && plan.emit != "hsaco") {
    bad("no code for a device but `" + plan.emit.substr(0, 20) + "`");
  }
  if (!metadata.device) bad("no `device`");
  const abi::Device& device = *metadata.device;
  for (const abi::LaunchStage& stage : metadata.plan) plan.stages.push_back(stage_of(stage, device));
  if (plan.stages.empty()) plan.stages.push_back(stage_of({metadata.entry, 1, {}, {}}, device));
  for (size_t axis = 0; device.cluster && axis < 3; ++axis) {
    plan.cluster[axis] = within((*device.cluster)[axis], "a bad cluster", 1, kMaxCluster);
  }
  plan.programs = within(device.programs.value_or(1), "bad programs", 1, target::kMostThreads);
  if (device.persistent) {
    plan.persistent = within(device.persistent, "a bad persistent", 1, target::kMostThreads);
    if (plan.programs != 1 || plan.stages.size() != 1 || metadata.workspace_bytes) {
      bad("persistent blocks of several programs or stages");
    }
  }
  plan.waits = device.waits;
  for (const abi::TensorMap& map : device.tensor_maps) {
    if (map.param >= kernel.params.size() || !kernel.params[map.param].type.pointer) bad("a tensor map of no pointer");
    plan.tensor_maps.push_back({map, 0});
  }
  lay_out(plan, kernel, metadata);
  return plan;
}

}  // namespace

Result<LaunchPlan> parse_launch_plan(const dsl::Kernel& kernel, const abi::Metadata& metadata) try {
  return plan_of(kernel, metadata);
} catch (const std::exception& problem) {
  return internal_error(std::string("has ") + problem.what());
}

}  // namespace kiln::client::gpu
