// A handle whose one variant was compiled elsewhere.
#include "kiln/client/artifact.h"

#include "function_state.h"
#include "kiln/abi/metadata_json.h"

namespace kiln::client {

Result<UntypedFunction> load_artifact(const dsl::Kernel& kernel, const Artifact& artifact) {
  const auto bad = [&](const std::string& what) {
    return internal_error("the artifact of kernel `" + kernel.name + "` has " + what);
  };
  auto metadata = abi::metadata_of(artifact.metadata);
  if (!metadata) return bad(metadata.error().message);
  if (metadata->facts.size() > kernel.params.size()) return bad("bad facts");
  auto variant = load_variant(kernel, artifact, metadata->facts);
  if (!variant) return variant.error();
  ConnectOptions nowhere;
  nowhere.autostart = nowhere.allow_pipe = false;
  auto core = std::make_shared<Core>(std::move(nowhere), /*specialise=*/false);
  CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), metadata->target, {}};
  return UntypedFunction(FunctionState::make(std::move(core), std::move(spec), std::move(*variant)));
}

}  // namespace kiln::client
