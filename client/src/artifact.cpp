// A handle whose one variant was compiled elsewhere.
#include "kiln/client/artifact.h"

#include "function_state.h"
#include "kiln/dsl/custom_kernel.h"
#include "profile/recorder.h"

namespace kiln::client {
namespace {

// Of this variant alone: there is no daemon to ask for others.
UntypedFunction handle_of(const dsl::Kernel& kernel, std::shared_ptr<const Variant> variant) {
  ConnectOptions nowhere;
  nowhere.autostart = nowhere.allow_pipe = false;
  auto core = std::make_shared<Core>(std::move(nowhere), /*specialise=*/false);
  CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), variant->metadata.target, {}};
  return UntypedFunction(FunctionState::make(std::move(core), std::move(spec), std::move(variant)));
}

}  // namespace

Result<UntypedFunction> load_artifact(const dsl::Kernel& kernel, const Artifact& artifact) {
  profile_as_environment_says();
  const abi::Metadata& metadata = artifact.metadata;
  if (metadata.facts.size() > kernel.params.size()) {
    return internal_error("the artifact of kernel `" + kernel.name + "` has bad facts");
  }
  auto variant = load_variant(kernel, artifact, metadata.facts);
  if (!variant) return variant.error();
  return handle_of(kernel, std::move(*variant));
}

Result<UntypedFunction> load_shared_object(const dsl::Kernel& declared, const std::string& path,
                                           const std::string& symbol) {
  profile_as_environment_says();
  const std::string name = "kernel `" + declared.name + "`";
  if (!dsl::only_declares(declared)) {
    return invalid_argument(name + " has ops: what a shared object's function is of has none");
  }
  auto module = Module::open(path, symbol);
  if (!module) return error(module.error().code, name + ": " + module.error().message);
  auto variant = std::make_shared<Variant>();
  variant->facts.resize(declared.params.size(), dsl::ParamFact::kNone);
  variant->grid = declared.grid;
  variant->metadata.kernel = declared.name;
  variant->metadata.target = "cpu";
  variant->metadata.emit = "so";
  variant->metadata.entry = symbol;
  variant->steps = {{(*module)->entry(), 1}};
  variant->module = std::move(*module);
  return handle_of(declared, std::move(variant));
}

}  // namespace kiln::client
