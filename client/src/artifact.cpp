// A handle whose one variant was compiled elsewhere.
#include "kiln/client/artifact.h"

#include "function_state.h"
#include "profile/recorder.h"

namespace kiln::client {

Result<UntypedFunction> load_artifact(const dsl::Kernel& kernel, const Artifact& artifact) {
  profile_as_environment_says();
  const abi::Metadata& metadata = artifact.metadata;
  if (metadata.facts.size() > kernel.params.size()) {
    return internal_error("the artifact of kernel `" + kernel.name + "` has bad facts");
  }
  auto variant = load_variant(kernel, artifact, metadata.facts);
  if (!variant) return variant.error();
  ConnectOptions nowhere;
  nowhere.autostart = nowhere.allow_pipe = false;
  auto core = std::make_shared<Core>(std::move(nowhere), /*specialise=*/false);
  CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), metadata.target, {}};
  return UntypedFunction(FunctionState::make(std::move(core), std::move(spec), std::move(*variant)));
}

}  // namespace kiln::client
