#include "launch_plan.h"

#include <stdexcept>

#include "kiln/dsl/expr_json.h"
#include "kiln/target/gpu.h"

namespace kiln::client::gpu {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxShared = 16u << 20;  // more is a damaged artifact, not a device to come
constexpr uint64_t kMaxChunks = INT32_MAX;
constexpr uint64_t kMaxCluster = 64;
constexpr uint64_t kMaxBox = 256;

// Within this file a field that is not as it must be is an exception, as it is to the JSON library.
[[noreturn]] void bad(const std::string& what) { throw std::invalid_argument(what); }

uint64_t number(const json& value, const std::string& what, uint64_t least, uint64_t most) {
  if (!value.is_number_integer() || value < json(least) || value > json(most)) bad(what);
  return value.get<uint64_t>();
}

dsl::Expr expression(const json& value) {
  auto expr = dsl::expr_from_json(value);
  if (!expr) bad("a bad expression: " + expr.error().message);
  return std::move(*expr);
}

std::vector<dsl::Expr> expressions(const json& values, size_t count, const char* what) {
  if (!values.is_array() || values.size() != count) bad(std::string("a tensor map of bad ") + what);
  std::vector<dsl::Expr> out;
  for (const json& value : values) out.push_back(expression(value));
  return out;
}

uint32_t swizzle_bytes(const json& value) {
  for (const uint32_t bytes : {32u, 64u, 128u}) {
    if (value == std::to_string(bytes)) return bytes;
  }
  if (value != "none") bad("a tensor map of an unknown swizzle");
  return 0;
}

bool fills_nan(const json& value, dsl::ElementType element) {
  if (value == "zero") return false;
  const dsl::ElementTypeInfo& info = dsl::info(element);
  if (value != "nan" || !info.is_float || info.bytes < 2) bad("a tensor map of an unknown fill");
  return true;
}

TensorMapPlan tensor_map(const json& map, const dsl::Kernel& kernel) {
  TensorMapPlan out;
  out.param = static_cast<uint32_t>(number(map.at("param"), "a tensor map of no parameter", 0, UINT32_MAX));
  if (out.param >= kernel.params.size() || !kernel.params[out.param].type.pointer) bad("a tensor map of no pointer");
  const auto element = dsl::parse_element_type(map.at("type").get<std::string>());
  if (!element) bad("a tensor map of an unknown type");
  out.element = *element;
  const uint64_t rank = number(map.at("rank"), "a tensor map of a bad rank", 1, kMaxTensorRank);
  out.dims = expressions(map.at("dims"), rank, "dims");
  out.strides_bytes = expressions(map.at("strides_bytes"), rank - 1, "strides_bytes");
  const json& box = map.at("box");
  if (!box.is_array() || box.size() != rank) bad("a tensor map of a bad box");
  for (size_t axis = 0; axis < rank; ++axis) {
    out.box[axis] = static_cast<uint32_t>(number(box[axis], "a tensor map of a bad box", 1, kMaxBox));
  }
  out.swizzle_bytes = swizzle_bytes(map.value("swizzle", json("none")));
  out.fills_nan = fills_nan(map.value("fill", json("zero")), out.element);
  if (map.value("interleave", json("none")) != "none") bad("a tensor map with interleave, which Kiln does not use");
  out.offset = expression(map.value("offset", json::array()));
  return out;
}

// A stage may have threads and shared memory of its own.
StagePlan stage(const json& fields, const json& device) {
  auto field = [&](const char* name) { return fields.contains(name) ? fields[name] : device.value(name, json()); };
  StagePlan out;
  out.entry = fields.at("entry").get<std::string>();
  out.chunks = number(fields.value("chunks", json(1)), "bad chunks", 1, kMaxChunks);
  out.threads = static_cast<uint32_t>(number(field("threads"), "a bad number of threads", 1, target::kMostThreads));
  out.shared_bytes = static_cast<uint32_t>(number(field("shared_bytes"), "bad shared_bytes", 0, kMaxShared));
  return out;
}

// Which fields there are, by the metadata.
abi::LaunchCounts counts_of(const LaunchPlan& plan, const dsl::Kernel& kernel, const json& metadata) {
  using enum abi::LaunchField;
  const auto has = [&](const char* name) { return metadata.contains(name) ? 1u : 0u; };
  abi::LaunchCounts out;
  for (const auto& [field, name] : abi::kLaunchFieldNames) out[field] = has(name);
  out[kWorkspace] = has("workspace_bytes");
  out[kTensorMaps] = static_cast<uint32_t>(plan.tensor_maps.size());
  out[kExtents] *= abi::pointer_count(kernel);
  out[kGrid] *= 3;
  return out;
}

// The compiler says where a field is; it must be where this client puts it.
void check_offsets(const abi::LaunchBlock& block, const json& metadata) {
  for (const auto& [field, name] : abi::kLaunchFieldNames) {
    if (!metadata.contains(name)) continue;
    const uint64_t offset = number(metadata[name], std::string("a bad ") + name, 0, kMaxBlockBytes);
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

void lay_out(LaunchPlan& plan, const dsl::Kernel& kernel, const json& metadata) {
  using enum abi::LaunchField;
  if (metadata.contains("workspace_bytes")) {
    plan.workspace_bytes = number(metadata["workspace_bytes"], "bad workspace_bytes", 1, INT64_MAX);
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

}  // namespace

Result<LaunchPlan> parse_launch_plan(const dsl::Kernel& kernel, const json& metadata) try {
  LaunchPlan plan;
  plan.target = metadata.at("target").get<std::string>();
  plan.emit = metadata.at("emit").get<std::string>();
  if (plan.emit != "cubin" && plan.emit != "ptx" && plan.emit != "hsaco") {
    bad("no code for a device but `" + plan.emit.substr(0, 20) + "`");
  }
  const json& device = metadata.at("device");
  if (metadata.contains("plan")) {
    for (const json& fields : metadata["plan"]) plan.stages.push_back(stage(fields, device));
  } else {
    plan.stages.push_back(stage({{"entry", metadata.at("entry")}}, device));
  }
  if (plan.stages.empty()) bad("a bad plan");
  if (device.contains("cluster")) {
    for (size_t axis = 0; axis < 3; ++axis) {
      plan.cluster[axis] = static_cast<uint32_t>(number(device["cluster"].at(axis), "a bad cluster", 1, kMaxCluster));
    }
  }
  plan.programs =
      static_cast<uint32_t>(number(device.value("programs", json(1)), "bad programs", 1, target::kMostThreads));
  if (device.contains("persistent")) {
    plan.persistent = static_cast<uint32_t>(number(device["persistent"], "a bad persistent", 1, target::kMostThreads));
    const bool is_alone = plan.programs == 1 && plan.stages.size() == 1 && !metadata.contains("workspace_bytes");
    if (!is_alone) bad("persistent blocks of several programs or stages");
  }
  plan.waits = device.value("waits", false);
  for (const json& map : device.value("tensor_maps", json::array())) {
    plan.tensor_maps.push_back(tensor_map(map, kernel));
  }
  lay_out(plan, kernel, metadata);
  return plan;
} catch (const std::exception& problem) {  // also nlohmann's, of another kind of value than expected
  return internal_error(std::string("has ") + problem.what());
}

}  // namespace kiln::client::gpu
