#include "reports.h"

#include "kiln/abi/launch_block.h"
#include "kiln/dsl/text.h"

namespace kiln::codegen {
namespace {

abi::SourcePlace place_of(const cpu::Report& report) {
  const dsl::Location& loc = report.op->loc;
  if (report.kernel->location_text(loc).empty()) return {};
  return {report.kernel->files[loc.file - 1], loc.line, loc.column};
}

abi::Check describe_check(const cpu::Report& check) {
  const dsl::Op& op = *check.op;
  abi::Check out{std::string(dsl::info(op.code).name), place_of(check), {}, {}};
  if (op.code == dsl::OpCode::kAssert) out.message = std::get<std::string>(op.attrs[0]);
  if (op.code == dsl::OpCode::kGather) {
    const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
    out.extent = dsl::concrete_shape(check.kernel->type(op.operands[0]))[axis];
  }
  return out;
}

abi::Print describe_print(const cpu::Report& print) {
  abi::Print out{std::get<std::string>(print.op->attrs[0]), place_of(print), {}};
  for (dsl::ValueId id : print.op->operands) {
    const dsl::Type& type = print.kernel->type(id);
    out.values.push_back({type.element, dsl::concrete_shape(type)});
  }
  return out;
}

void describe_steps(const gpu::LoweredSequence& lowered, abi::Metadata& metadata) {
  for (const gpu::LoweredStep& step : lowered.steps) {
    metadata.plan.push_back({step.entry, step.chunks, step.threads, step.shared_bytes});
  }
  if (!lowered.steps.empty()) metadata.workspace_bytes = lowered.workspace_bytes;
}

}  // namespace

abi::Metadata describe_request(const dsl::CompileRequest& request, const dsl::Kernel& kernel) {
  abi::Metadata out;
  out.kernel = kernel.name;
  out.target = request.target;
  out.emit = request.emit;
  out.entry = kEntry;
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  for (size_t i = 0; i < layout.slots.size(); ++i) {
    const dsl::Param& param = kernel.params[i];
    out.params.push_back(
        {param.name, dsl::to_string(param.type, kernel.expr_names()), layout.slots[i].offset, param.readonly});
  }
  out.params_bytes = layout.bytes;
  for (const dsl::Expr& extent : kernel.grid) out.grid.push_back(dsl::to_string(extent, kernel.expr_names()));
  out.grid_expr.assign(kernel.grid.begin(), kernel.grid.end());
  out.constexprs.insert(request.constexprs.begin(), request.constexprs.end());
  for (const dsl::Constexpr& item : kernel.constexprs) {
    const auto given = request.constexprs.find(item.name);
    out.config.push_back(given != request.constexprs.end() ? given->second : item.default_value.value_or(0));
  }
  out.facts = request.facts;
  return out;
}

void describe_launch(const LaunchSequence& sequence, const cpu::Lowered& lowered, abi::Metadata& metadata) {
  for (const cpu::Report& check : lowered.checks) metadata.checks.push_back(describe_check(check));
  for (const cpu::Report& print : lowered.prints) metadata.prints.push_back(describe_print(print));
  if (sequence.steps.size() <= 1) return;
  for (const LaunchStep& step : sequence.steps) metadata.plan.push_back({step.entry, step.chunks, {}, {}});
  metadata.workspace_bytes = sequence.workspace_bytes;
}

void describe_launches(const gpu::LoweredSequence& lowered, abi::Metadata& metadata) {
  if (lowered.first.programs > 1) metadata.device->programs = lowered.first.programs;
  describe_steps(lowered, metadata);
  describe_launch(*lowered.first.kernel, lowered.first, metadata);
}

void describe_launch(const dsl::Kernel& kernel, const gpu::Lowered& lowered, abi::Metadata& metadata) {
  for (const dsl::Op* check : lowered.checks) metadata.checks.push_back(describe_check({&kernel, check}));
  for (const dsl::Op* print : lowered.prints) metadata.prints.push_back(describe_print({&kernel, print}));
  abi::LaunchCounts counts = lowered.launch;
  counts[abi::LaunchField::kWorkspace] = metadata.workspace_bytes ? 1 : 0;
  const abi::LaunchBlock block = abi::lay_out_launch_block(static_cast<uint32_t>(metadata.params_bytes), counts);
  for (const auto& [field, name] : abi::kLaunchFieldNames) {
    if (const auto offset = block.offset(field)) metadata.offsets[field] = *offset;
  }
}

}  // namespace kiln::codegen
