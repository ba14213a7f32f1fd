#include "pt2/archive.h"

#include <fcntl.h>
#include <minizip/unzip.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kiln::graph::pt2 {
namespace {

constexpr uint64_t kMaxMembers = 200'000;
constexpr size_t kMaxName = 4096;

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

struct CloseZip {
  void operator()(void* zip) const { unzClose(zip); }
};
using Zip = std::unique_ptr<void, CloseZip>;

Error unreadable(const std::string& path, const std::string& what) { return invalid_argument(path + ": " + what); }

Result<std::span<const std::byte>> map_file(const std::string& path, std::shared_ptr<const void>& mapping) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status{};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument;
    return error(code, path + ": " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return unreadable(path, "is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return unreadable(path, "is empty");
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (memory == MAP_FAILED) return unreadable(path, std::string("cannot be mapped: ") + std::strerror(errno));
  mapping = std::shared_ptr<const void>(memory, [size](const void* at) { ::munmap(const_cast<void*>(at), size); });
  return std::span(static_cast<const std::byte*>(memory), size);
}

struct Member {
  std::string name;
  std::span<const std::byte> bytes;
};

// The member that `zip` stands at.
Result<Member> current_member(unzFile zip, const std::string& path, std::span<const std::byte> file) {
  unz_file_info64 info{};
  std::string name(kMaxName, '\0');
  if (unzGetCurrentFileInfo64(zip, &info, name.data(), name.size(), nullptr, 0, nullptr, 0) != UNZ_OK) {
    return unreadable(path, "the archive's directory is damaged");
  }
  if (info.size_filename >= kMaxName)
    return unreadable(path, "a member's name has " + std::to_string(info.size_filename) + " bytes");
  name.resize(info.size_filename);
  if (info.compression_method != 0 || (info.flag & 1) != 0 || info.compressed_size != info.uncompressed_size) {
    return unreadable(path,
                      "member `" + name + "` is compressed or encrypted; torch.export.save stores members as they are");
  }
  // Checks the header in front of the bytes too.
  int method = 0, level = 0;
  if (unzOpenCurrentFile2(zip, &method, &level, 1) != UNZ_OK)
    return unreadable(path, "member `" + name + "` is damaged");
  const uint64_t at = unzGetCurrentFileZStreamPos64(zip);
  unzCloseCurrentFile(zip);
  if (at == 0 || at > file.size() || info.uncompressed_size > file.size() - at) {
    return unreadable(path, "member `" + name + "` lies outside of the file: it is truncated");
  }
  return Member{std::move(name), file.subspan(at, info.uncompressed_size)};
}

}  // namespace

Result<Archive> open_archive(const std::string& path) {
  Archive out;
  auto file = map_file(path, out.mapping);
  if (!file) return file.error();
  const Zip zip(unzOpen64(path.c_str()));
  if (!zip) return unreadable(path, "is no .pt2 file: no ZIP archive, or a truncated one");
  unz_global_info64 global{};
  if (unzGetGlobalInfo64(zip.get(), &global) != UNZ_OK) return unreadable(path, "the archive's directory is damaged");
  if (global.number_entry > kMaxMembers)
    return unreadable(path, "has " + std::to_string(global.number_entry) + " members");
  std::string root;
  for (uint64_t i = 0; i < global.number_entry; ++i) {
    const int moved = i == 0 ? unzGoToFirstFile(zip.get()) : unzGoToNextFile(zip.get());
    if (moved != UNZ_OK) return unreadable(path, "the archive's directory is damaged");
    auto member = current_member(zip.get(), path, *file);
    if (!member) return member.error();
    const size_t slash = member->name.find('/');
    if (slash == std::string::npos) return unreadable(path, "member `" + member->name + "` is in no folder");
    if (i == 0) root = member->name.substr(0, slash);
    if (member->name.substr(0, slash) != root)
      return unreadable(path, "has members in two folders, `" + root + "` and `" + member->name.substr(0, slash) + "`");
    std::string below = member->name.substr(slash + 1);
    if (!out.members.emplace(below, member->bytes).second) return unreadable(path, "has member `" + below + "` twice");
  }
  return out;
}

}  // namespace kiln::graph::pt2
