#include "wanted_form.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>

#include "ir_dump.h"
#include "reports.h"

namespace kiln::codegen {
namespace {

Result<std::string> entry_named(const std::string& name) {
  const bool is_fine = !name.empty() && name.size() <= 200 && !llvm::isDigit(name[0]) &&
                       llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (!is_fine) return invalid_argument("`" + name.substr(0, 80) + "` cannot be the name of an entry");
  return name;
}

std::string own_entry(const dsl::Kernel& kernel, const Backend& backend) {
  if (!backend.names_entries || !kernel.options.names_lines()) return kEntry;
  std::string out = "kiln_" + kernel.name;
  std::ranges::replace(out, '.', '_');
  return out;
}

Result<void> check_pass(const IrDump& dump, const Backend& backend) {
  if (dump.is_early()) return {};
  std::string known(IrDump::kInstantiate);
  for (const PassRow& row : rows_of(backend)) {
    if (row.name == dump.wanted()) return {};
    known += ", " + std::string(row.name);
  }
  return invalid_argument("cannot dump the IR after `" + dump.wanted() + "`; there are " + known + ", all");
}

}  // namespace

Result<WantedForm> wanted_form(const std::string& emit, const dsl::Kernel& kernel, const Backend& backend) {
  if (const IrDump dump(emit); dump.is_wanted()) {
    if (auto known = check_pass(dump, backend); !known) return known.error();
    return WantedForm{emit, kEntry};
  }
  WantedForm out{emit, own_entry(kernel, backend)};
  const size_t colon = emit.find(':');
  if (backend.names_entries && colon != std::string::npos && !emit.starts_with("ir:")) {
    auto entry = entry_named(emit.substr(colon + 1));
    if (!entry) return entry.error();
    out = {emit.substr(0, colon), std::move(*entry)};
  }
  if (out.form == "so") out.form = backend.forms.front();
  if (llvm::is_contained(backend.forms, out.form)) return out;
  return invalid_argument("cannot emit `" + out.form + "` for this target; there are " +
                          llvm::join(backend.forms, ", ") + ", ir, ir:PASS");
}

}  // namespace kiln::codegen
