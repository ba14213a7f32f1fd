#include "machine_code.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace kiln::test {
namespace {

// The parts of a text, none of them empty.
std::vector<std::string_view> parts(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Words with one space between. What stands before an instruction goes: an opening brace of PTX, a predicate, the `v`
// of AVX.
std::string tidy(std::string_view statement, target::Family family) {
  std::istringstream words{std::string(statement)};
  std::string out;
  for (std::string word; words >> word;) {
    if (out.empty() && (word == "{" || word == "}" || word.starts_with('@'))) continue;
    if (out.empty() && family == target::Family::kX86 && word.starts_with('v')) word.erase(0, 1);
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

// Whether a text begins with the pattern, which ends with a word of it or with `*`.
bool begins_with(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty() || text[0] == ' ';
  if (pattern[0] != '*') {
    return !text.empty() && text[0] == pattern[0] && begins_with(text.substr(1), pattern.substr(1));
  }
  if (pattern.size() == 1) return true;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (begins_with(text.substr(i), pattern.substr(1))) return true;
  }
  return false;
}

}  // namespace

MachineCode::MachineCode(const std::string& text, target::Family family) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || (line[0] != '\t' && line[0] != ' ' && line[0] != '{' && line[0] != '@')) continue;
    const std::string_view code = std::string_view(line).substr(0, line.find("//"));
    for (std::string_view statement : parts(code, ';')) {
      std::string instruction = tidy(statement, family);
      if (!instruction.empty() && instruction[0] != '.' && instruction[0] != '#') {
        instructions_.push_back(std::move(instruction));
      }
    }
  }
}

bool MachineCode::has(std::string_view pattern) const {
  return std::ranges::all_of(parts(pattern, '&'), [&](std::string_view one) {
    return std::ranges::any_of(parts(one, '|'), [&](std::string_view alternative) {
      return std::ranges::any_of(instructions_,
                                 [&](const std::string& each) { return begins_with(each, alternative); });
    });
  });
}

std::string MachineCode::mnemonics() const {
  std::set<std::string> seen;
  for (const std::string& each : instructions_) seen.insert(each.substr(0, each.find(' ')));
  std::string out;
  for (const std::string& each : seen) out += (out.empty() ? "" : " ") + each;
  return out;
}

}  // namespace kiln::test
