// What an upgrade, or an installation beside this one, has in the place of a program.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>

#include "kiln/wire/paths.h"

namespace kiln::service_test {

// Another file of the same program with another build-id: one byte of the note is changed.
inline std::string other_build_of(const std::string& program, const std::string& copy) {
  std::ifstream in(program, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::string id;
  for (std::string hex = wire::read_build_id(program); !hex.empty(); hex.erase(0, 2)) {
    id += static_cast<char>(std::stoi(hex.substr(0, 2), nullptr, 16));
  }
  size_t at = bytes.find(id);
  if (at == std::string::npos) return {};
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  std::ofstream(copy, std::ios::binary) << bytes;
  ::chmod(copy.c_str(), 0700);
  return copy;
}

}  // namespace kiln::service_test
