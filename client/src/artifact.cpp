// A handle whose one variant was compiled elsewhere.
#include "kiln/client/artifact.h"

#include "function_state.h"
#include "kiln/dsl/facts.h"
#include "kiln/wire/json.h"

namespace kiln::client {
namespace {

using nlohmann::json;

Result<dsl::ParamFact> parse_fact(const json& name) {
  const auto fact = name.is_string() ? dsl::parse_fact(name.get_ref<const std::string&>()) : std::nullopt;
  return fact ? Result<dsl::ParamFact>(*fact) : invalid_argument("an unknown fact");
}

// One a parameter, or none at all.
Result<dsl::Facts> parse_facts(const dsl::Kernel& kernel, const json& metadata) {
  const json facts = metadata.is_object() ? metadata.value("facts", json::array()) : json();
  dsl::Facts out;
  if (!facts.is_array() || facts.size() > kernel.params.size()) return invalid_argument("bad facts");
  for (const json& name : facts) {
    auto fact = parse_fact(name);
    if (!fact) return fact.error();
    out.push_back(*fact);
  }
  return out;
}

}  // namespace

Result<UntypedFunction> load_artifact(const dsl::Kernel& kernel, const Artifact& artifact) {
  auto facts = parse_facts(kernel, artifact.metadata);
  if (!facts) return internal_error("the artifact of kernel `" + kernel.name + "` has " + facts.error().message);
  auto variant = load_variant(kernel, artifact, *facts);
  if (!variant) return variant.error();
  ConnectOptions nowhere;
  nowhere.autostart = nowhere.allow_pipe = false;
  auto core = std::make_shared<Core>(std::move(nowhere), /*specialise=*/false);
  CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), wire::Fields(artifact.metadata).text("target"), {}};
  return UntypedFunction(FunctionState::make(std::move(core), std::move(spec), std::move(*variant)));
}

}  // namespace kiln::client
