#include <nlohmann/json.hpp>

#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/expr_json.h"

namespace kiln::abi {
namespace {

using nlohmann::json;

json expressions(const std::vector<dsl::Expr>& all) {
  json out = json::array();
  for (const dsl::Expr& expr : all) out.push_back(dsl::expr_to_json(expr));
  return out;
}

json of_param(const Metadata::Param& param) {
  json out = {{"name", param.name}, {"type", param.type}, {"offset", param.offset}};
  if (param.readonly) out["readonly"] = true;
  return out;
}

json of_op(std::string_view op, const SourcePlace& place) {
  json out = {{"op", op}};
  if (place.file.empty() && place.line == 0) return out;
  out["file"] = place.file;
  out["line"] = place.line;
  out["column"] = place.column;
  return out;
}

json of_check(const Check& check) {
  json out = of_op(check.op, check.place);
  if (check.message) out["message"] = *check.message;
  if (check.extent) out["extent"] = *check.extent;
  return out;
}

json of_print(const Print& print) {
  json out = of_op("print", print.place);
  out["message"] = print.message;
  out["values"] = json::array();
  for (const PrintedType& value : print.values) {
    out["values"].push_back({{"type", dsl::info(value.element).name}, {"shape", value.shape}});
  }
  return out;
}

json of_step(const LaunchStep& step) {
  json out = {{"entry", step.entry}, {"chunks", step.chunks}};
  if (step.threads) out["threads"] = *step.threads;
  if (step.shared_bytes) out["shared_bytes"] = *step.shared_bytes;
  return out;
}

json of_map(const TensorMap& map) {
  json out = {{"param", map.param},
              {"offset", dsl::expr_to_json(map.offset)},
              {"type", dsl::info(map.element).name},
              {"rank", map.dims.size()},
              {"dims", expressions(map.dims)},
              {"strides_bytes", expressions(map.strides_bytes)},
              {"box", map.box},
              {"swizzle", map.swizzle_bytes == 0 ? "none" : std::to_string(map.swizzle_bytes)}};
  if (map.fills_nan) out["fill"] = "nan";
  return out;
}

json of_device(const Device& device) {
  json out = json::object();
  for (const auto& [name, field] : kDeviceNumbers) {
    if (const auto& value = device.*field) out[name] = *value;
  }
  if (device.waits) out["waits"] = true;
  if (device.cluster) out["cluster"] = *device.cluster;
  for (const TensorMap& map : device.tensor_maps) out["tensor_maps"].push_back(of_map(map));
  if (device.warnings) out["warnings"] = *device.warnings;
  return out;
}

// What there is only where something is to be said.
void add_rest(const Metadata& from, json& out) {
  for (const Check& check : from.checks) out["checks"].push_back(of_check(check));
  for (const Print& print : from.prints) out["prints"].push_back(of_print(print));
  for (const LaunchStep& step : from.plan) out["plan"].push_back(of_step(step));
  if (from.workspace_bytes) out["workspace_bytes"] = *from.workspace_bytes;
  if (from.needs) out["needs"] = {{"architecture", from.needs->architecture}, {"features", from.needs->features}};
  if (from.scratch_bytes) out["scratch_bytes"] = *from.scratch_bytes;
  if (from.device) out["device"] = of_device(*from.device);
  for (const auto& [field, name] : kLaunchFieldNames) {
    if (const auto offset = from.offsets.find(field); offset != from.offsets.end()) out[name] = offset->second;
  }
}

}  // namespace

nlohmann::json to_json(const Metadata& from) {
  json out = {{"kernel", from.kernel},
              {"target", from.target},
              {"emit", from.emit},
              {"entry", from.entry},
              {"params", json::array()},
              {"params_bytes", from.params_bytes},
              {"grid", from.grid},
              {"grid_expr", expressions(from.grid_expr)},
              {"constexprs", from.constexprs},
              {"config", from.config},
              {"facts", json::array()},
              {"phases_us", from.phases_us},
              {"passes_us", from.passes_us},
              {"code_bytes", from.code_bytes}};
  for (const Metadata::Param& param : from.params) out["params"].push_back(of_param(param));
  for (dsl::ParamFact fact : from.facts) out["facts"].push_back(dsl::fact_name(fact));
  add_rest(from, out);
  return out;
}

std::string write_metadata(const Metadata& metadata) {
  return to_json(metadata).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace kiln::abi
