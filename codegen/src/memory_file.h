// Files of memory alone, for linkers and assemblers, which read and write nothing else. Who may make none later sets
// some aside: they are used again and again, so that what they hold is bounded by their number.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kiln::codegen {

class MemoryFile {
 public:
  // At once, in one compile: the source of an assembler, its code, its words.
  static constexpr size_t kMostAtOnce = 3;

  // For this process, which starts no others from now on that would have the same.
  static void set_aside(size_t count = kMostAtOnce) {
    while (spare().size() < count) {
      const int made = make();
      if (made < 0) return;
      spare().push_back(made);
    }
  }

  // One that was set aside, else a new one. Empty, and closed on exec.
  MemoryFile() : returns_(!spare().empty()), fd_(returns_ ? spare().back() : make()) {
    if (returns_) spare().pop_back();
  }
  ~MemoryFile() {
    if (returns_ && ::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0) {
      spare().push_back(fd_);
    } else if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  bool write(std::span<const std::byte> bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t size = ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return false;
      done += static_cast<size_t>(size);
    }
    return true;
  }

  // What is there, as far as it can be read.
  std::vector<std::byte> read() const {
    struct stat about{};
    if (::fstat(fd_, &about) != 0) return {};
    std::vector<std::byte> out(static_cast<size_t>(about.st_size));
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t size = ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(done));
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      done += static_cast<size_t>(size);
    }
    out.resize(done);
    return out;
  }

 private:
  static int make() { return ::memfd_create("kiln-compile", MFD_CLOEXEC); }
  // Descriptors are the process's, and so is this list.
  static std::vector<int>& spare() {
    static std::vector<int> files;
    return files;
  }

  const bool returns_;
  const int fd_;
};

}  // namespace kiln::codegen
