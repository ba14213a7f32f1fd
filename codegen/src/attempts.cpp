#include "attempts.h"

namespace kiln::codegen {
namespace {

// With warps that copy, and without where they leave the others too few registers.
Result<Compiled> attempt(const Backend& backend, const dsl::CompileRequest& request, const LaunchSequence& sequence,
                         Attempt how, const Observer& observer, const abi::Metadata& metadata) {
  for (;;) {
    Job job(request, sequence, how, observer);
    job.metadata = metadata;
    if (auto lowered = backend.lower(backend, job); !lowered) return lowered.error();
    if (request.emit.starts_with("ir")) return Compiled{std::move(job.metadata), {}};
    auto code = backend.emit(job);
    if (!code) return code.error();
    if (auto fine = job.diagnostics.check(); !fine) return fine.error();
    if (!code->lacks_registers || !how.specialises) {
      return Compiled{std::move(job.metadata), std::move(code->bytes), code->spilled_bytes};
    }
    how.specialises = false;  // the program's warps copy by themselves
  }
}

}  // namespace

// Short code that is short of registers bridges nothing well.
Result<Compiled> make_code(const Backend& backend, const dsl::CompileRequest& request, const LaunchSequence& sequence,
                           const Observer& observer, const abi::Metadata& metadata) {
  const Attempt first{gpu::effort_for(request.facts)};
  auto made = attempt(backend, request, sequence, first, observer, metadata);
  if (!made || first.effort == gpu::Effort::kFast || made->spilled_bytes == 0) return made;
  auto fast = attempt(backend, request, sequence, {}, observer, metadata);
  return !fast || fast->spilled_bytes < made->spilled_bytes ? std::move(fast) : std::move(made);
}

}  // namespace kiln::codegen
