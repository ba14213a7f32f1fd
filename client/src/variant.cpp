#include "variant.h"

#include <algorithm>
#include <cstring>

#include "gpu/kernel_code.h"
#include "host_cpu.h"
#include "kernel_files.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/instantiate.h"

namespace kiln::client {
namespace {

Error bad_artifact(const dsl::Kernel& kernel, const std::string& what) {
  return internal_error("the artifact of kernel `" + kernel.name + "` " + what);
}

// The parameter layout in the metadata must be the one that this client packs.
bool same_layout(const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  if (metadata.params.size() != kernel.params.size()) return false;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const abi::Metadata::Param& param = metadata.params[i];
    const bool same =
        param.offset == layout.slots[i].offset && param.type == to_string(kernel.params[i].type, kernel.expr_names());
    if (!same) return false;
  }
  return true;
}

// A kernel without a sequence is one step.
Result<std::vector<LaunchStep>> steps_of(const dsl::Kernel& kernel, const abi::Metadata& metadata,
                                         const Module& module) {
  if (metadata.plan.empty()) return std::vector<LaunchStep>{{module.entry(), 1}};
  std::vector<LaunchStep> out;
  for (const abi::LaunchStep& step : metadata.plan) {
    const kiln_entry_fn function = step.chunks >= 1 ? module.find(step.entry) : nullptr;
    if (function == nullptr) return bad_artifact(kernel, "has a bad plan");
    out.push_back({function, static_cast<uint64_t>(step.chunks)});
  }
  return out;
}

Result<std::shared_ptr<const Module>> load_module(const dsl::Kernel& kernel, const std::string& entry,
                                                  const std::vector<std::byte>& code) {
  auto kept = keeps_kernel_files() ? load_kept(kernel.name, code, entry) : nullptr;
  return kept ? Result<std::shared_ptr<const Module>>(std::move(kept)) : Module::load(code, entry);
}

Result<void> load_host_code(const dsl::Kernel& kernel, const abi::Metadata& metadata,
                            const std::vector<std::byte>& code, Variant& variant) {
  auto module = load_module(kernel, metadata.entry, code);
  if (!module) return module.error();
  auto steps = steps_of(kernel, metadata, **module);
  if (!steps) return steps.error();
  variant.module = std::move(*module);
  variant.steps = std::move(*steps);
  variant.scratch_bytes = static_cast<uint64_t>(metadata.scratch_bytes.value_or(0));
  variant.workspace_bytes = static_cast<uint64_t>(metadata.workspace_bytes.value_or(0));
  return {};
}

Result<void> load_device_code(const dsl::Kernel& kernel, const abi::Metadata& metadata, const Artifact& artifact,
                              Variant& variant) {
  auto sequence = gpu::parse_launches(kernel, metadata);
  if (!sequence) return bad_artifact(kernel, sequence.error().message);
  auto code = gpu::KernelCode::create(kernel, artifact, std::move(*sequence), variant.reports);
  if (!code) return code.error();
  variant.device_code = std::move(*code);
  return {};
}

// What all artifacts must have, whatever they run on.
Result<void> check_metadata(const dsl::Kernel& kernel, const abi::Metadata& metadata) {
  if (metadata.entry.empty()) return bad_artifact(kernel, "has no entry");
  // What a GPU must have is in the target's name.
  if (auto runs =
          check_host(metadata.device ? abi::Metadata::Needs() : metadata.needs.value_or(abi::Metadata::Needs()));
      !runs) {
    return invalid_argument("kernel `" + kernel.name + "`, target `" + metadata.target.substr(0, 80) +
                            "`: " + runs.error().message);
  }
  if (!same_layout(kernel, metadata)) return bad_artifact(kernel, "has other parameters than the kernel");
  if (metadata.grid_expr.size() != 3) return bad_artifact(kernel, "has no grid");
  if (!kernel.constraints.empty() && metadata.config.size() != kernel.constexprs.size()) {
    return bad_artifact(kernel, "has no config");
  }
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
  const abi::Metadata& metadata = artifact.metadata;
  if (auto fine = check_metadata(kernel, metadata); !fine) return fine.error();
  auto variant = std::make_shared<Variant>();
  variant->facts = facts;
  variant->facts.resize(kernel.params.size(), dsl::ParamFact::kNone);
  variant->quick = metadata.emit == abi::kQuickEmit;
  std::ranges::copy(metadata.grid_expr, variant->grid.begin());
  // Names of constexprs may be those of another kernel, which differs in names alone: values go by their order.
  if (!kernel.constraints.empty()) variant->config.assign(metadata.config.begin(), metadata.config.end());
  variant->metadata = metadata;
  variant->reports = {metadata.checks, metadata.prints};
  auto loaded = metadata.device ? load_device_code(kernel, metadata, artifact, *variant)
                                : load_host_code(kernel, metadata, artifact.code, *variant);
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
  variant->metadata.kernel = kernel.name;
  variant->metadata.target = "interp";
  variant->metadata.constexprs = values;
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
