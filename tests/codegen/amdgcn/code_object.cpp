#include "code_object.h"

#include <elf.h>

#include <cstring>

namespace kiln::test {
namespace {

template <class T>
T at(std::span<const std::byte> bytes, uint64_t offset) {
  T out{};
  if (offset + sizeof(T) <= bytes.size()) std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return out;
}

bool all_zero(std::span<const std::byte> bytes, uint64_t offset, uint64_t count) {
  for (uint64_t i = offset; i < offset + count && i < bytes.size(); ++i)
    if (bytes[i] != std::byte{0}) return false;
  return offset + count <= bytes.size();
}

// The place in the file of an address.
uint64_t offset_of(std::span<const std::byte> elf, const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address < segment.p_vaddr + segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return elf.size();
}

void read_symbols(std::span<const std::byte> elf, const Elf64_Ehdr& header, const std::string& entry, CodeObject& out) {
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(elf, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto strings = at<Elf64_Shdr>(elf, header.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
    for (uint64_t j = 0; j < section.sh_size / sizeof(Elf64_Sym); ++j) {
      const auto symbol = at<Elf64_Sym>(elf, section.sh_offset + j * sizeof(Elf64_Sym));
      const uint64_t name = strings.sh_offset + symbol.st_name;
      if (name >= elf.size()) continue;
      const std::string text(reinterpret_cast<const char*>(elf.data()) + name);
      const Symbol seen = {symbol.st_value, symbol.st_size, ELF64_ST_TYPE(symbol.st_info),
                           ELF64_ST_BIND(symbol.st_info), ELF64_ST_VISIBILITY(symbol.st_other)};
      if (text == entry) out.entry = seen;
      if (text == entry + ".kd") out.descriptor_symbol = seen;
    }
  }
}

void read_note(std::span<const std::byte> elf, const Elf64_Phdr& segment, CodeObject& out) {
  constexpr uint32_t kMetadata = 32;
  for (uint64_t at_byte = segment.p_offset; at_byte + 12 <= segment.p_offset + segment.p_filesz;) {
    const auto name_bytes = at<uint32_t>(elf, at_byte), bytes = at<uint32_t>(elf, at_byte + 4);
    const auto type = at<uint32_t>(elf, at_byte + 8);
    const uint64_t begin = at_byte + 12 + (name_bytes + 3) / 4 * 4;
    const std::string name(reinterpret_cast<const char*>(elf.data()) + at_byte + 12);
    if (name == "AMDGPU" && type == kMetadata && begin + bytes <= elf.size()) {
      const auto* data = reinterpret_cast<const uint8_t*>(elf.data()) + begin;
      out.metadata = nlohmann::json::from_msgpack(data, data + bytes, true, false);
    }
    at_byte = begin + (bytes + 3) / 4 * 4;
  }
}

}  // namespace

CodeObject read_code_object(std::span<const std::byte> elf, const std::string& entry,
                            std::vector<std::string>& problems) {
  CodeObject out;
  const auto header = at<Elf64_Ehdr>(elf, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    problems.push_back("no 64-bit ELF file");
    return out;
  }
  out.abi = header.e_ident[EI_OSABI];
  out.abi_version = header.e_ident[EI_ABIVERSION];
  out.type = header.e_type, out.machine = header.e_machine, out.flags = header.e_flags;
  std::vector<Elf64_Phdr> segments;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    segments.push_back(at<Elf64_Phdr>(elf, header.e_phoff + i * sizeof(Elf64_Phdr)));
    if (segments.back().p_type == PT_NOTE) read_note(elf, segments.back(), out);
  }
  if (out.metadata.is_null() || out.metadata.is_discarded()) problems.push_back("no metadata note");
  read_symbols(elf, header, entry, out);
  if (out.entry.address == 0) problems.push_back("no dynamic symbol of the kernel's function");
  if (out.descriptor_symbol.address == 0) problems.push_back("no dynamic symbol of the descriptor");
  for (const Elf64_Phdr& segment : segments) {
    const bool holds = out.entry.address >= segment.p_vaddr && out.entry.address < segment.p_vaddr + segment.p_memsz;
    if (segment.p_type == PT_LOAD && holds) out.entry_is_executable = (segment.p_flags & PF_X) != 0;
  }
  const uint64_t place = offset_of(elf, segments, out.descriptor_symbol.address);
  const bool reserved_is_zero =
      all_zero(elf, place + 12, 4) && all_zero(elf, place + 24, 20) && all_zero(elf, place + 60, 4);
  out.descriptor = {at<uint32_t>(elf, place),      at<uint32_t>(elf, place + 4),
                    at<uint32_t>(elf, place + 8),  at<int64_t>(elf, place + 16),
                    at<uint32_t>(elf, place + 48), at<uint32_t>(elf, place + 52),
                    at<uint32_t>(elf, place + 44), at<uint16_t>(elf, place + 56),
                    at<uint16_t>(elf, place + 58), reserved_is_zero};
  return out;
}

}  // namespace kiln::test
