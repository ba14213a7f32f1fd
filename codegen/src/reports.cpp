#include "reports.h"

#include "kiln/abi/launch_block.h"

namespace kiln::codegen {
namespace {

using nlohmann::json;

json place_of(const cpu::Report& report) {
  const dsl::Location& loc = report.op->loc;
  json out = {{"op", dsl::info(report.op->code).name}};
  if (report.kernel->location_text(loc).empty()) return out;
  out["file"] = report.kernel->files[loc.file - 1];
  out["line"] = loc.line;
  out["column"] = loc.column;
  return out;
}

json describe_check(const cpu::Report& check) {
  json out = place_of(check);
  const dsl::Op& op = *check.op;
  if (op.code == dsl::OpCode::kAssert) out["message"] = std::get<std::string>(op.attrs[0]);
  if (op.code == dsl::OpCode::kGather) {
    const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
    out["extent"] = dsl::concrete_shape(check.kernel->type(op.operands[0]))[axis];
  }
  return out;
}

json describe_print(const cpu::Report& print) {
  json out = place_of(print);
  out["message"] = std::get<std::string>(print.op->attrs[0]);
  out["values"] = json::array();
  for (dsl::ValueId id : print.op->operands) {
    const dsl::Type& type = print.kernel->type(id);
    out["values"].push_back({{"type", dsl::info(type.element).name}, {"shape", dsl::concrete_shape(type)}});
  }
  return out;
}

}  // namespace

void describe_launch(const Plan& plan, const cpu::Lowered& lowered, json& metadata) {
  for (const cpu::Report& check : lowered.checks) metadata["checks"].push_back(describe_check(check));
  for (const cpu::Report& print : lowered.prints) metadata["prints"].push_back(describe_print(print));
  if (plan.stages.size() <= 1) return;
  for (const Stage& stage : plan.stages) {
    metadata["plan"].push_back({{"entry", stage.entry}, {"chunks", stage.chunks}});
  }
  metadata["workspace_bytes"] = plan.workspace_bytes;
}

void describe_stages(const gpu::LoweredPlan& plan, json& metadata) {
  for (const gpu::LoweredStage& stage : plan.stages) {
    metadata["plan"].push_back({{"entry", stage.entry},
                                {"chunks", stage.chunks},
                                {"threads", stage.threads},
                                {"shared_bytes", stage.shared_bytes}});
  }
  if (!plan.stages.empty()) metadata["workspace_bytes"] = plan.workspace_bytes;
}

void describe_launch(const dsl::Kernel& kernel, const gpu::Lowered& lowered, json& metadata) {
  for (const dsl::Op* check : lowered.checks) metadata["checks"].push_back(describe_check({&kernel, check}));
  for (const dsl::Op* print : lowered.prints) metadata["prints"].push_back(describe_print({&kernel, print}));
  abi::LaunchCounts counts = lowered.launch;
  counts[abi::LaunchField::kWorkspace] = metadata.contains("workspace_bytes") ? 1 : 0;
  const abi::LaunchBlock block = abi::lay_out_launch_block(metadata["params_bytes"].get<uint32_t>(), counts);
  for (const auto& [field, name] : abi::kLaunchFieldNames) {
    if (const auto offset = block.offset(field)) metadata[name] = *offset;
  }
}

}  // namespace kiln::codegen
