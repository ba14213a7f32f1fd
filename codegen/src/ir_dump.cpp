#include "ir_dump.h"

#include <algorithm>

#include "passes/pipeline.h"

namespace kiln::codegen {

IrDump::IrDump(const std::string& emit) {
  if (emit == "ir") wanted_ = pipeline().back().name;
  if (emit.starts_with("ir:")) wanted_ = emit.substr(3);
}

bool IrDump::is_early() const {
  const auto has_it = [&](std::span<const Pass> table) {
    return std::ranges::find(table, wanted_, &Pass::name) != table.end();
  };
  return wanted_ == kAll || wanted_ == kInstantiate || has_it(rounding_passes()) || has_it(pipeline());
}

void IrDump::after(std::string_view pass, const PrintIr& print) {
  if (wanted_ == kAll) {
    parts_.push_back({"after " + std::string(pass), print()});
  } else if (wanted_ == pass) {
    const auto known = std::ranges::find(parts_, launch_, &Part::launch);
    (known == parts_.end() ? parts_.emplace_back(Part{launch_, ""}) : *known).text = print();
  }
}

std::string IrDump::text() const {
  if (parts_.empty()) return "// `" + wanted_ + "` did not run\n";
  if (parts_.size() == 1) return parts_[0].text;
  std::string out;
  for (const Part& part : parts_) out += (out.empty() ? "// " : "\n// ") + part.launch + "\n" + part.text;
  return out;
}

}  // namespace kiln::codegen
