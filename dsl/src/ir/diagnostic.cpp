#include "ir/diagnostic.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>

#include "kiln/dsl/source_line.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl {
namespace {

constexpr size_t kMaxShown = 160;       // bytes of a source line
constexpr size_t kMaxRead = 16u << 20;  // bytes of a source file

// A line of a regular file; devices and pipes could block or never end.
std::optional<std::string> read_line(const std::string& path, uint32_t number) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed) || failed) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  size_t read = 0;
  std::string line;
  for (uint32_t i = 1; std::getline(file, line); ++i) {
    if (i == number) return line;
    read += line.size() + 1;
    if (read > kMaxRead) break;
  }
  return std::nullopt;
}

// A number and what is to stand behind it, taken from the front of `text`.
std::optional<uint32_t> take_number(std::string_view& text, std::string_view behind) {
  uint32_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.starts_with(behind)) return std::nullopt;
  text.remove_prefix(behind.size());
  return number;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string with_caret(std::string message, std::string_view line, uint32_t column) {
  if (column == 0 || column > line.size() + 1 || column > kMaxShown) return message;
  std::string shown(line.substr(0, kMaxShown));
  std::string marker;
  for (size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    if (byte < 0x20 || byte == 0x7f) shown[i] = ' ';
    // One column a character, however many bytes it has.
    if (i + 1 < column && !continues_character(shown[i])) marker += ' ';
  }
  while (!shown.empty() && shown.back() == ' ') shown.pop_back();
  return message + "\n  " + shown + "\n  " + marker + "^";
}

std::string diagnostic(const Kernel& kernel, const Location& loc, const std::string& message) {
  const std::string place = kernel.location_text(loc);
  if (place.empty()) return "kernel `" + kernel.name + "`: error: " + message;
  const std::string head = place + ": error: " + message;
  auto line = read_line(kernel.files[loc.file - 1], loc.line);
  return line ? with_caret(head, *line, loc.column) : head;
}

std::string with_source_line(const Kernel& kernel, const std::string& message) {
  if (message.find('\n') != std::string::npos) return message;
  for (uint32_t i = 0; i < kernel.files.size(); ++i) {
    if (!message.starts_with(kernel.files[i] + ":")) continue;
    std::string_view rest = std::string_view(message).substr(kernel.files[i].size() + 1);
    const auto line = take_number(rest, ":");
    const auto column = line ? take_number(rest, ": error: ") : std::nullopt;
    if (column) return diagnostic(kernel, {i + 1, *line, *column}, std::string(rest));
  }
  return message;
}

}  // namespace kiln::dsl
