#include "reports.h"

#include <algorithm>

#include "kiln/dsl/expr_json.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/text.h"

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

void describe_stages(const gpu::LoweredPlan& plan, json& metadata) {
  for (const gpu::LoweredStage& stage : plan.stages) {
    metadata["plan"].push_back({{"entry", stage.entry},
                                {"chunks", stage.chunks},
                                {"threads", stage.threads},
                                {"shared_bytes", stage.shared_bytes}});
  }
  if (!plan.stages.empty()) metadata["workspace_bytes"] = plan.workspace_bytes;
}

}  // namespace

json describe_request(const dsl::CompileRequest& request, const dsl::Kernel& kernel) {
  json out;
  out["kernel"] = kernel.name;
  out["target"] = request.target;
  out["emit"] = request.emit;
  out["entry"] = gpu::kEntry;
  uint64_t params_bytes = 0;
  const auto layout = cpu::param_layout(kernel, params_bytes);
  out["params"] = json::array();
  for (size_t i = 0; i < layout.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    out["params"].push_back({{"name", param.name},
                             {"type", dsl::to_string(param.type, kernel.expr_names())},
                             {"offset", layout[i].offset}});
    if (param.readonly) out["params"].back()["readonly"] = true;
  }
  out["params_bytes"] = params_bytes;
  for (const dsl::Expr& extent : kernel.grid) {
    out["grid"].push_back(dsl::to_string(extent, kernel.expr_names()));
    out["grid_expr"].push_back(dsl::expr_to_json(extent));
  }
  out["constexprs"] = json::object();
  for (const auto& [name, value] : request.constexprs) out["constexprs"][name] = value;
  out["config"] = json::array();
  for (const dsl::Constexpr& item : kernel.constexprs) {
    const auto given = request.constexprs.find(item.name);
    out["config"].push_back(given != request.constexprs.end() ? given->second : item.default_value.value_or(0));
  }
  out["facts"] = json::array();
  for (dsl::ParamFact fact : request.facts) out["facts"].push_back(dsl::fact_name(fact));
  return out;
}

void describe_launch(const Plan& plan, const cpu::Lowered& lowered, json& metadata) {
  for (const cpu::Report& check : lowered.checks) metadata["checks"].push_back(describe_check(check));
  for (const cpu::Report& print : lowered.prints) metadata["prints"].push_back(describe_print(print));
  if (plan.stages.size() <= 1) return;
  for (const Stage& stage : plan.stages) {
    metadata["plan"].push_back({{"entry", stage.entry}, {"chunks", stage.chunks}});
  }
  metadata["workspace_bytes"] = plan.workspace_bytes;
}

void describe_launches(const gpu::LoweredPlan& plan, json& metadata) {
  if (plan.first.programs > 1) metadata["device"]["programs"] = plan.first.programs;
  describe_stages(plan, metadata);
  describe_launch(*plan.first.kernel, plan.first, metadata);
}

void describe_launch(const dsl::Kernel& kernel, const gpu::Lowered& lowered, json& metadata) {
  for (const dsl::Op* check : lowered.checks) metadata["checks"].push_back(describe_check({&kernel, check}));
  for (const dsl::Op* print : lowered.prints) metadata["prints"].push_back(describe_print({&kernel, print}));
  constexpr uint64_t kTensorMapBytes = 128, kTensorMapAlignment = 64;
  uint64_t offset = (metadata["params_bytes"].get<uint64_t>() + 7) / 8 * 8;
  if (metadata.contains("workspace_bytes")) offset += 8;
  for (size_t i = 0; i < lowered.tensor_maps.size(); ++i) {
    offset = (offset + kTensorMapAlignment - 1) / kTensorMapAlignment * kTensorMapAlignment + kTensorMapBytes;
  }
  const auto add = [&](const char* name, bool is_there, int64_t words) {
    if (is_there) metadata[name] = offset;
    if (is_there) offset += 8 * static_cast<uint64_t>(words);
  };
  add("failure_param", lowered.params.failure, 1);
  add("extents_param", lowered.params.extents,
      std::ranges::count_if(kernel.params, [](const dsl::Param& param) { return param.type.pointer; }));
  add("print_param", lowered.params.print, 1);
  add("programs_param", lowered.programs > 1, 1);
  add("grid_param", lowered.persistent, 2);
  add("queue_param", lowered.queued, 1);
}

}  // namespace kiln::codegen
