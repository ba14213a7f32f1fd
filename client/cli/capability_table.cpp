#include "capability_table.h"

#include <algorithm>

namespace kiln::cli {
namespace {

using target::Capability;
using target::Support;

char letter_of(Support support) {
  switch (support) {
    case Support::kNative:
      return 'n';
    case Support::kEmulated:
      return 'e';
    case Support::kRefused:
      return '-';
    case Support::kAbsent:
      break;
  }
  return '.';
}

std::string padded(const std::string& text, size_t width) { return text + std::string(width - text.size(), ' '); }

std::string without_trailing_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string CapabilityTable::cell(const Capability& has) {
  std::string out(1, letter_of(has.support));
  if (has.support == Support::kAbsent || has.how.empty()) return out;
  const auto [found, is_new] = numbers_.try_emplace(has.how, notes_.size() + 1);
  if (is_new) notes_.push_back(has.how);
  return out + std::to_string(found->second);
}

void CapabilityTable::add_row(const std::string& name, const target::OpForm& form, const target::Processor& processor) {
  Row row{name, {}};
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    row.cells.push_back(cell(capability(form, static_cast<dsl::ElementType>(i), processor)));
  }
  rows_.push_back(std::move(row));
}

std::string CapabilityTable::text() const {
  size_t first = heading_.size();
  std::vector<size_t> widths;
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    widths.push_back(dsl::info(static_cast<dsl::ElementType>(i)).name.size());
  }
  for (const Row& row : rows_) {
    first = std::max(first, row.name.size());
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row.cells[i].size());
  }
  std::string out = padded(heading_, first);
  for (size_t i = 0; i < widths.size(); ++i) {
    out += " " + padded(std::string(dsl::info(static_cast<dsl::ElementType>(i)).name), widths[i]);
  }
  out = without_trailing_spaces(out) + "\n";
  for (const Row& row : rows_) {
    std::string line = padded(row.name, first);
    for (size_t i = 0; i < widths.size(); ++i) line += " " + padded(row.cells[i], widths[i]);
    out += without_trailing_spaces(line) + "\n";
  }
  out += "\nn native, e emulated, - refused, . the language has no such op of this type\n";
  for (size_t i = 0; i < notes_.size(); ++i) out += std::to_string(i + 1) + " " + notes_[i] + "\n";
  return out;
}

}  // namespace kiln::cli
