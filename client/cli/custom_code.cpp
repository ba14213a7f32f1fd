#include "custom_code.h"

#include <filesystem>
#include <optional>

#include "kiln/client/artifact.h"
#include "kiln/wire/files.h"

namespace kiln::cli {
namespace {

std::optional<dsl::CodeForm> form_of(const std::string& ending) {
  if (ending == ".ll") return dsl::CodeForm::kLlvmIr;
  if (ending == ".ptx") return dsl::CodeForm::kPtx;
  if (ending == ".s") return dsl::CodeForm::kAmdAssembly;
  return std::nullopt;
}

}  // namespace

Result<client::UntypedFunction> get_code(client::Client& client, const dsl::Kernel& declared, const RunFlags& flags) {
  if (!flags.kernel.sets.empty() || !flags.kernel.facts.empty()) {
    return invalid_argument(std::string(flags.kernel.sets.empty() ? "--facts" : "--set") +
                            ": code of --code is as it is");
  }
  const CodeFlags& code = flags.code;
  const std::string ending = std::filesystem::path(code.file).extension();
  if (ending == ".so") {
    if (flags.kernel.target != "cpu")
      return invalid_argument("--code " + code.file + ": a shared object is for the target cpu");
    return client::load_shared_object(declared, code.file, code.entry.empty() ? declared.name : code.entry);
  }
  const auto form = form_of(ending);
  if (!form) return invalid_argument("--code " + code.file + ": neither .ll nor .ptx, .s or .so");
  auto text = wire::read_text(code.file);
  if (!text) return text.error();
  return client.get_custom(declared,
                           {.form = *form,
                            .text = std::move(*text),
                            .entry = code.entry,
                            .file = code.file,
                            .threads = code.block_threads,
                            .shared_bytes = code.shared_bytes},
                           {.target = flags.kernel.target, .deadline_ms = flags.kernel.deadline_ms});
}

}  // namespace kiln::cli
