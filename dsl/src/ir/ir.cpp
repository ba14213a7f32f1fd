#include "kiln/dsl/ir.h"

namespace kiln::dsl {

std::vector<int64_t> concrete_shape(const Type& type) {
  std::vector<int64_t> out;
  out.reserve(type.shape.size());
  for (const Expr& extent : type.shape) out.push_back(extent.as_constant().value());
  return out;
}

int64_t element_count(const Type& type) {
  int64_t count = 1;
  for (int64_t extent : concrete_shape(type)) count *= extent;
  return count;
}

std::vector<Expr> shape_of(const std::vector<int64_t>& extents) { return {extents.begin(), extents.end()}; }

std::span<const KernelOption> kernel_options() {
  static constexpr KernelOption kOptions[] = {
      {"contract", &KernelOptions::contract},
      {"fuse_precision", &KernelOptions::fuse_precision},
      {"deterministic", &KernelOptions::deterministic},
      {"debug", &KernelOptions::debug, "lines", &KernelOptions::lines},
      {"check_bounds", &KernelOptions::check_bounds},
  };
  return kOptions;
}

std::string_view KernelOption::value(const KernelOptions& options) const {
  if (word_member && options.*word_member && !(options.*member)) return word;
  return options.*member ? "true" : "false";
}

bool KernelOption::set(KernelOptions& options, std::string_view value) const {
  const bool is_word = word_member && value == word;
  if (!is_word && value != "true" && value != "false") return false;
  options.*member = value == "true";
  if (word_member) options.*word_member = is_word;
  return true;
}

std::optional<uint32_t> Kernel::find_param(std::string_view param_name) const {
  for (uint32_t i = 0; i < params.size(); ++i) {
    if (params[i].name == param_name) return i;
  }
  return std::nullopt;
}

std::optional<uint32_t> Kernel::find_constexpr(std::string_view constexpr_name) const {
  for (uint32_t i = 0; i < constexprs.size(); ++i) {
    if (constexprs[i].name == constexpr_name) return i;
  }
  return std::nullopt;
}

std::string Kernel::location_text(const Location& loc) const {
  if (loc.file == 0 || loc.file > files.size()) return "";
  return files[loc.file - 1] + ":" + std::to_string(loc.line) + ":" + std::to_string(loc.column);
}

ExprNames Kernel::expr_names() const {
  return {[this](uint32_t i) { return i < constexprs.size() ? constexprs[i].name : "constexpr#" + std::to_string(i); },
          [this](uint32_t i) { return i < params.size() ? params[i].name : "param#" + std::to_string(i); }};
}

std::string to_string(const Type& type, const ExprNames& names) {
  std::string element(info(type.element).name);
  if (type.pointer) element = "ptr<" + element + ">";
  if (type.shape.empty()) return element;
  std::string shape;
  for (const Expr& extent : type.shape) shape += (shape.empty() ? "" : ", ") + to_string(extent, names);
  return (type.descriptor ? "descriptor<[" : "tile<[") + shape + "], " + element + ">";
}

}  // namespace kiln::dsl
