// Which compiler this is: the build-ids of this executable and of LLVM's library.
#include <link.h>

#include <cstring>
#include <map>
#include <string>

#include "kiln/codegen/compile.h"

namespace kiln::codegen {
namespace {

std::string to_hex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

// The GNU build-id of a loaded object, from its note segment.
std::string build_id_of(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) & header = object.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object.dlpi_addr + header.p_vaddr);
    const char* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* data = name + ((note.n_namesz + 3) & ~3u);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        return to_hex(reinterpret_cast<const unsigned char*>(data), note.n_descsz);
      }
      at = data + ((note.n_descsz + 3) & ~3u);
    }
  }
  return {};
}

int collect_build_ids(dl_phdr_info* object, size_t, void* out) {
  // The executable has the empty name; every LLVM library counts, whichever way it is split.
  const std::string name = object->dlpi_name ? object->dlpi_name : "";
  if (name.empty() || name.find("libLLVM") != std::string::npos) {
    (*static_cast<std::map<std::string, std::string>*>(out))[name] = build_id_of(*object);
  }
  return 0;
}

}  // namespace

std::string builder_id() {
  std::map<std::string, std::string> ids;
  dl_iterate_phdr(collect_build_ids, &ids);
  std::string out;
  for (const auto& [name, id] : ids) out += (name.empty() ? "" : "-") + id;
  return out;
}

}  // namespace kiln::codegen
