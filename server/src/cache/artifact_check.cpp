#include "cache/artifact_check.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

namespace kiln::server {
namespace {

constexpr std::array<std::string_view, 5> kElfKinds = {"so", "quick", "obj", "cubin", "hsaco"};

bool is_elf(std::string_view code) {
  Elf64_Ehdr header;
  if (code.size() < sizeof header) return false;
  std::memcpy(&header, code.data(), sizeof header);
  const auto inside = [&](uint64_t offset, uint64_t size) {
    return offset <= code.size() && size <= code.size() - offset;
  };
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         inside(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize) &&
         inside(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize);
}

}  // namespace

Result<void> check_artifact(const abi::Metadata& metadata, std::span<const std::byte> code) {
  if (code.empty()) return internal_error("the worker sent an artifact without code");
  const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  if (std::find(kElfKinds.begin(), kElfKinds.end(), metadata.emit) != kElfKinds.end() && !is_elf(text)) {
    return internal_error("the worker sent a " + metadata.emit + " that is no whole ELF file");
  }
  if (metadata.emit == "ptx" && text.find(".entry " + metadata.entry + "(") == std::string_view::npos) {
    return internal_error("the worker sent PTX without the entry `" + metadata.entry + "`");
  }
  return {};
}

}  // namespace kiln::server
