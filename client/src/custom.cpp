// Kernels whose code the caller wrote: the daemon compiles them, and they are launched as an artifact of the
// declaration.
#include "core.h"
#include "kiln/client/artifact.h"
#include "kiln/client/client.h"
#include "profile/recorder.h"

namespace kiln::client {

Result<Artifact> Client::compile_custom(const dsl::Kernel& declared, const dsl::CustomCode& code,
                                        const CustomOptions& options) {
  if (options.target == kInterpreter) {
    return invalid_argument("custom kernel `" + declared.name + "`: the interpreter runs kernels of the language");
  }
  if (auto request = dsl::encode_custom_request({declared, code, options.target}); !request) return request.error();
  const std::shared_ptr<Core> shared = core();
  auto target = shared->resolve_target(options.target, options.deadline_ms);
  if (!target) return target.error();
  auto request = dsl::encode_custom_request({declared, code, std::move(*target)});
  if (!request) return request.error();
  return shared->fetch(*request, {.deadline_ms = options.deadline_ms});
}

Result<UntypedFunction> Client::get_custom(const dsl::Kernel& declared, const dsl::CustomCode& code,
                                           const CustomOptions& options) {
  const Timed timed(profile::Kind::kGet, declared.name);
  auto artifact = compile_custom(declared, code, options);
  if (!artifact) return artifact.error();
  return load_artifact(declared, *artifact);
}

}  // namespace kiln::client
