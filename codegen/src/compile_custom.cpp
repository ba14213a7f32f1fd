// The life of a request for a custom kernel: decode → the target's own way from text to code.
#include "backend.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/float_mode.h"
#include "phases.h"
#include "reports.h"

namespace kiln::codegen {
namespace {

Result<void> check_form(const Backend& backend, const dsl::CustomRequest& request) {
  if (std::ranges::find(backend.custom_forms, request.code.form) != backend.custom_forms.end()) return {};
  std::string forms;
  for (const dsl::CodeForm form : backend.custom_forms) {
    forms += (forms.empty() ? "" : " or ") + std::string(dsl::name_of(form));
  }
  return invalid_argument("custom kernel `" + request.declaration.name + "`: the target `" + request.target +
                          "` takes " + forms + ", and its code is " + std::string(dsl::name_of(request.code.form)));
}

}  // namespace

Result<Artifact> compile_custom(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                                const Progress& progress) {
  const dsl::FloatMode mode;
  Phases phases(progress);
  phases.begin("decode");
  auto request = dsl::decode_custom_request(canonical, debug);
  if (!request) return request.error();
  const auto backend = backend_for(request->target);
  if (!backend) return backend.error();
  phases.begin("target");
  if (auto known = (*backend)->check_target(request->target); !known) return known.error();
  if (auto fine = check_form(**backend, *request); !fine) return fine.error();
  dsl::CompileRequest declared{request->declaration, request->target, {}, {}, std::string((*backend)->forms.front())};
  Artifact out;
  out.metadata = describe_request(declared, request->declaration);
  phases.begin("codegen");
  auto code = (*backend)->compile_custom(*request, out.metadata);
  if (!code) return code.error();
  out.code = std::move(*code);
  out.metadata.code_bytes = static_cast<int64_t>(out.code.size());
  phases.describe(out.metadata);
  return out;
}

}  // namespace kiln::codegen
