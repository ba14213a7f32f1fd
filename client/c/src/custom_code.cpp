// Kernels whose code the caller brings.
#include "errors.h"
#include "kiln/client/artifact.h"
#include "objects.h"
#include "run_options.h"

namespace kiln::c {
namespace {

Result<CustomCode> custom_code(const kiln_custom_code& from) {
  if (auto fine = check_pointer(from.text, "text"); !fine) return fine.error();
  if (from.form < KILN_CODE_LLVM_IR || from.form > KILN_CODE_AMD_ASSEMBLY) {
    return invalid_argument("`form` is " + std::to_string(from.form) + ", which is no KILN_CODE");
  }
  if (from.shared_bytes > INT64_MAX) return invalid_argument("`shared_bytes` is out of range");
  return CustomCode{.form = static_cast<CodeForm>(from.form),
                    .text = std::string(from.text, from.text_size),
                    .entry = text_or(from.entry, ""),
                    .file = text_or(from.file, ""),
                    .threads = from.threads == 0 ? 1 : int64_t{from.threads},
                    .shared_bytes = static_cast<int64_t>(from.shared_bytes)};
}

}  // namespace

extern "C" {

kiln_status kiln_kernel_compile_custom(kiln_client* client, kiln_kernel* kernel, const kiln_custom_code* code,
                                       kiln_function** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    if (auto fine = check_pointer(code, "code"); !fine) return fine;
    auto with = pin<ClientObject>(client, "client");
    if (!with) return with.error();
    auto what = pin<KernelObject>(kernel, "kernel");
    if (!what) return what.error();
    auto known = read_options(code, "kiln_custom_code");
    if (!known) return known.error();
    auto custom = custom_code(*known);
    if (!custom) return custom.error();
    const std::string target = text_or(known->target, "cpu");
    auto compiled = (*with)->client.get_custom((*what)->kernel, *custom,
                                               CustomOptions{.target = target, .deadline_ms = known->deadline_ms});
    if (!compiled) return compiled.error();
    give<FunctionObject>(fn, std::move(*compiled), target);
    return {};
  });
}

kiln_status kiln_function_of_object(kiln_kernel* kernel, const char* path, const char* symbol, kiln_function** fn) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    if (auto fine = check_pointer(symbol, "symbol"); !fine) return fine;
    if (auto fine = check_pointer(fn, "fn"); !fine) return fine;
    auto what = pin<KernelObject>(kernel, "kernel");
    if (!what) return what.error();
    auto loaded = client::load_shared_object((*what)->kernel, path, symbol);
    if (!loaded) return loaded.error();
    give<FunctionObject>(fn, std::move(*loaded), "cpu");
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
