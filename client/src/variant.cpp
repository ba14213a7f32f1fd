#include "variant.h"

#include <algorithm>
#include <cstring>

#include "gpu/kernel_code.h"
#include "host_cpu.h"
#include "kiln/dsl/expr_json.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/instantiate.h"

namespace kiln::client {
namespace {

using nlohmann::json;

Error bad_artifact(const dsl::Kernel& kernel, const std::string& what) {
  return internal_error("the artifact of kernel `" + kernel.name + "` " + what);
}

// The parameter plan in the metadata must be the one that this client packs.
bool same_layout(const dsl::Kernel& kernel, const json& metadata) {
  const ParamLayout layout = abi::lay_out_params(kernel);
  const auto params = metadata.find("params");
  if (params == metadata.end() || !params->is_array() || params->size() != kernel.params.size()) return false;
  for (size_t i = 0; i < params->size(); ++i) {
    const json& param = (*params)[i];
    if (!param.is_object() || param.value("offset", json()) != layout.slots[i].offset ||
        param.value("type", json()) != to_string(kernel.params[i].type, kernel.expr_names())) {
      return false;
    }
  }
  return true;
}

Result<std::array<dsl::Expr, 3>> parse_grid(const dsl::Kernel& kernel, const json& metadata) {
  const auto grid = metadata.find("grid_expr");
  if (grid == metadata.end() || !grid->is_array() || grid->size() != 3) {
    return bad_artifact(kernel, "has no grid");
  }
  std::array<dsl::Expr, 3> out;
  for (size_t axis = 0; axis < 3; ++axis) {
    auto expr = dsl::expr_from_json((*grid)[axis]);
    if (!expr) return bad_artifact(kernel, "has a bad grid: " + expr.error().message);
    out[axis] = std::move(*expr);
  }
  return out;
}

// The constexprs' values, for constraints. Their names in the metadata may be those of another kernel, which differs in
// names alone.
Result<std::vector<std::optional<int64_t>>> parse_config(const dsl::Kernel& kernel, const json& metadata) {
  if (kernel.constraints.empty()) return std::vector<std::optional<int64_t>>();
  const json config = metadata.value("config", json());
  if (!config.is_array() || config.size() != kernel.constexprs.size()) return bad_artifact(kernel, "has no config");
  std::vector<std::optional<int64_t>> out;
  for (const json& value : config) {
    if (!value.is_number_integer()) return bad_artifact(kernel, "has a bad config");
    out.emplace_back(value.get<int64_t>());
  }
  return out;
}

uint64_t bytes_of(const json& metadata, const char* field) {
  const json value = metadata.value(field, json(0));
  return value.is_number_integer() ? value.get<uint64_t>() : 0;
}

// A kernel without a plan is one stage.
Result<std::vector<Stage>> parse_plan(const dsl::Kernel& kernel, const json& metadata, const Module& module) {
  const auto plan = metadata.find("plan");
  if (plan == metadata.end()) return std::vector<Stage>{{module.entry(), 1}};
  if (!plan->is_array() || plan->empty()) return bad_artifact(kernel, "has a bad plan");
  std::vector<Stage> out;
  for (const json& stage : *plan) {
    const json entry = stage.is_object() ? stage.value("entry", json()) : json();
    const json chunks = stage.is_object() ? stage.value("chunks", json()) : json();
    const bool fine = entry.is_string() && chunks.is_number_integer() && chunks.get<int64_t>() >= 1;
    const kiln_entry_fn function = fine ? module.find(entry.get<std::string>()) : nullptr;
    if (function == nullptr) return bad_artifact(kernel, "has a bad plan");
    out.push_back({function, chunks.get<uint64_t>()});
  }
  return out;
}

Result<void> load_host_code(const dsl::Kernel& kernel, const Artifact& artifact, Variant& variant) {
  const json& metadata = artifact.metadata;
  auto module = Module::load(artifact.code, metadata["entry"].get<std::string>());
  if (!module) return module.error();
  auto stages = parse_plan(kernel, metadata, **module);
  if (!stages) return stages.error();
  variant.module = std::move(*module);
  variant.stages = std::move(*stages);
  variant.scratch_bytes = bytes_of(metadata, "scratch_bytes");
  variant.workspace_bytes = bytes_of(metadata, "workspace_bytes");
  return {};
}

Result<void> load_device_code(const dsl::Kernel& kernel, const Artifact& artifact, Variant& variant) {
  auto plan = gpu::parse_launch_plan(kernel, artifact.metadata);
  if (!plan) return bad_artifact(kernel, plan.error().message);
  auto code = gpu::KernelCode::create(kernel, artifact, std::move(*plan), variant.reports);
  if (!code) return code.error();
  variant.device_code = std::move(*code);
  return {};
}

}  // namespace

void pack_arguments(const dsl::Kernel& kernel, const ParamLayout& layout, std::span<const Argument> arguments,
                    std::byte* block) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool pointer = kernel.params[i].type.pointer;
    const void* from = pointer ? static_cast<const void*>(&arguments[i].data) : &arguments[i].bits;
    std::memcpy(block + layout.slots[i].offset, from, layout.slots[i].size);
  }
}

int64_t extent_of(const Argument& argument) {
  const int64_t known = argument.data == nullptr ? 0 : std::max<int64_t>(argument.extent, 0);
  return known == dsl::kUnknownExtent ? -1 : known;
}

Result<std::shared_ptr<const Variant>> load_variant(const dsl::Kernel& kernel, const Artifact& artifact,
                                                    const dsl::Facts& facts) {
  const json& metadata = artifact.metadata;
  if (!metadata.is_object() || !metadata.value("entry", json()).is_string()) {
    return bad_artifact(kernel, "has no entry");
  }
  // What a GPU must have is in the target's name.
  const json needs = metadata.contains("device") ? json() : metadata.value("needs", json());
  if (auto runs = check_host(needs); !runs) {
    return invalid_argument("kernel `" + kernel.name + "`, target `" +
                            metadata.value("target", std::string()).substr(0, 80) + "`: " + runs.error().message);
  }
  if (!same_layout(kernel, metadata)) return bad_artifact(kernel, "has other parameters than the kernel");
  auto grid = parse_grid(kernel, metadata);
  if (!grid) return grid.error();
  auto config = parse_config(kernel, metadata);
  if (!config) return config.error();
  auto reports = parse_reports(metadata);
  if (!reports) return bad_artifact(kernel, "has " + reports.error().message);
  auto variant = std::make_shared<Variant>();
  variant->facts = facts;
  variant->facts.resize(kernel.params.size(), dsl::ParamFact::kNone);
  variant->quick = metadata.value("emit", json()) == kQuickEmit;
  variant->grid = std::move(*grid);
  variant->config = std::move(*config);
  variant->metadata = metadata;
  variant->reports = std::move(*reports);
  auto loaded = metadata.contains("device") ? load_device_code(kernel, artifact, *variant)
                                            : load_host_code(kernel, artifact, *variant);
  if (!loaded) return loaded.error();
  return std::shared_ptr<const Variant>(std::move(variant));
}

Result<std::shared_ptr<const Variant>> interpreted_variant(const dsl::Kernel& kernel,
                                                           const dsl::ConstexprValues& values,
                                                           const dsl::Facts& facts) {
  auto complete = dsl::complete_constexprs(kernel, values);
  if (!complete) return complete.error();
  auto concrete = dsl::instantiate(kernel, *complete, facts);
  if (!concrete) return concrete.error();
  auto variant = std::make_shared<Variant>();
  variant->facts = facts;
  variant->facts.resize(kernel.params.size(), dsl::ParamFact::kNone);
  variant->grid = concrete->grid;
  for (const dsl::Constexpr& item : kernel.constexprs) variant->config.emplace_back(complete->at(item.name));
  variant->metadata = {{"kernel", kernel.name}, {"target", "interp"}, {"constexprs", values}};
  variant->concrete = std::move(*concrete);
  return std::shared_ptr<const Variant>(std::move(variant));
}

dsl::Facts exact_facts(const dsl::Kernel& kernel, std::span<const Argument> arguments) {
  dsl::Facts facts;
  exact_facts(kernel, arguments, facts);
  return facts;
}

void exact_facts(const dsl::Kernel& kernel, std::span<const Argument> arguments, dsl::Facts& facts) {
  facts.assign(kernel.params.size(), dsl::ParamFact::kNone);
  for (size_t i = 0; i < facts.size() && i < arguments.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    if (type.pointer) {
      const bool aligned = reinterpret_cast<uintptr_t>(arguments[i].data) % 16 == 0;
      facts[i] = aligned ? dsl::ParamFact::kAlign16 : dsl::ParamFact::kNone;
    } else if (dsl::is_int(type.element) && type.element != dsl::ElementType::kI1) {
      facts[i] = dsl::fact_of_int(static_cast<int64_t>(arguments[i].bits));
    }
  }
}

bool is_sound(const dsl::Facts& facts, const dsl::Facts& exact) {
  if (facts == exact) return true;  // as of most launches
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!dsl::implies(i < exact.size() ? exact[i] : dsl::ParamFact::kNone, facts[i])) return false;
  }
  return true;
}

std::string facts_text(const dsl::Kernel& kernel, const dsl::Facts& facts) {
  std::string out;
  for (size_t i = 0; i < facts.size() && i < kernel.params.size(); ++i) {
    if (facts[i] == dsl::ParamFact::kNone) continue;
    out += (out.empty() ? "" : ",") + kernel.params[i].name + "=" + dsl::fact_name(facts[i]);
  }
  return out;
}

}  // namespace kiln::client
