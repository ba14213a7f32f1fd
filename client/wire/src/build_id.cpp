// Reads the GNU build-id note of an ELF file, the name of one exact build.
#include <elf.h>
#include <fcntl.h>

#include <cstring>
#include <vector>

#include "kiln/wire/paths.h"

namespace kiln::wire {
namespace {

constexpr size_t kMaxNotes = 64u << 10;

bool read_at(int fd, void* data, size_t size, uint64_t offset) {
  return ::pread(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

size_t align4(size_t value) { return (value + 3) & ~size_t{3}; }

std::string find_build_id(const std::vector<unsigned char>& notes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  size_t at = 0;
  while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    size_t name = at + sizeof note, content = name + align4(note.n_namesz);
    if (content + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(&notes[name], "GNU", 4) == 0) {
      std::string hex;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        hex += kDigits[notes[content + i] >> 4];
        hex += kDigits[notes[content + i] & 15];
      }
      return hex;
    }
    at = content + align4(note.n_descsz);
  }
  return {};
}

}  // namespace

std::string read_build_id(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr header;
  if (!fd || !read_at(fd.get(), &header, sizeof header, 0)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Elf64_Phdr)) return {};
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(fd.get(), &segment, sizeof segment, header.e_phoff + static_cast<uint64_t>(i) * sizeof segment)) break;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNotes) continue;
    std::vector<unsigned char> notes(segment.p_filesz);
    if (!read_at(fd.get(), notes.data(), notes.size(), segment.p_offset)) continue;
    if (std::string id = find_build_id(notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace kiln::wire
