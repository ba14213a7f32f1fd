// Archives of object files, `NAME.a`, as linkers read them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kiln::cli {

struct ArchiveMember {
  std::string name;  // of the object file
  std::vector<std::byte> object;
  std::vector<std::string> symbols;  // that it defines and others may use
};

// With a symbol table, so that no `ranlib` is needed.
std::string archive(const std::vector<ArchiveMember>& members);

}  // namespace kiln::cli
