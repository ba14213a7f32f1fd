#include "archive.h"

#include <cstdint>

namespace kiln::cli {
namespace {

constexpr size_t kHeaderBytes = 60;
constexpr std::string_view kMagic = "!<arch>\n";

std::string padded(std::string text, size_t width) {
  text.resize(width, ' ');
  return text;
}

// Without owner and time: the same kernels give the same bytes.
std::string header(const std::string& name, size_t bytes) {
  return padded(name, 16) + padded("0", 12) + padded("0", 6) + padded("0", 6) + padded("644", 8) +
         padded(std::to_string(bytes), 10) + "`\n";
}

void append(std::string& out, const std::string& name, std::string_view content) {
  out += header(name, content.size());
  out += content;
  if (content.size() % 2 != 0) out += '\n';
}

std::string big_endian(size_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

size_t even(size_t bytes) { return bytes + bytes % 2; }

}  // namespace

std::string archive(const std::vector<ArchiveMember>& members) {
  std::string long_names, symbol_names;
  std::vector<size_t> name_at;
  size_t symbols = 0;
  for (const ArchiveMember& member : members) {
    name_at.push_back(long_names.size());
    long_names += member.name + "/\n";
    for (const std::string& symbol : member.symbols) symbol_names += symbol + '\0';
    symbols += member.symbols.size();
  }
  const size_t table_bytes = 4 * (symbols + 1) + symbol_names.size();
  size_t at = kMagic.size() + kHeaderBytes + even(table_bytes) + kHeaderBytes + even(long_names.size());
  std::string table = big_endian(symbols);
  for (const ArchiveMember& member : members) {
    for (size_t i = 0; i < member.symbols.size(); ++i) table += big_endian(at);
    at += kHeaderBytes + even(member.object.size());
  }
  std::string out(kMagic);
  append(out, "/", table + symbol_names);
  append(out, "//", long_names);
  for (size_t i = 0; i < members.size(); ++i) {
    append(out, "/" + std::to_string(name_at[i]),
           {reinterpret_cast<const char*>(members[i].object.data()), members[i].object.size()});
  }
  return out;
}

}  // namespace kiln::cli
