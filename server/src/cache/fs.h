// The file system calls of the disk tier, behind a seam so that tests can make any one of them fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln::server {

struct DirEntry {
  std::string name;
  bool is_dir = false;
  uint64_t size = 0;  // of which no more counts than it takes on the disk
  int64_t mtime_ns = 0;
  bool is_other = false;  // neither a directory nor a regular file
};

// Every call returns -errno when it fails. Paths are relative to the directory descriptor; none leads through a link,
// and open gives regular files of this user's only (kiln/wire/own_file.h).
class Fs {
 public:
  virtual ~Fs() = default;
  virtual int open(int dir, const std::string& path, int flags, mode_t mode) = 0;
  virtual int stat(int fd, struct stat& info) = 0;
  virtual ssize_t read(int fd, std::byte* data, size_t size) = 0;
  // The same of what memory holds of the disk: -EAGAIN where that is not enough, or not known. They never wait.
  virtual int open_cached(int /*dir*/, const std::string& /*path*/, int /*flags*/) { return -EAGAIN; }
  virtual ssize_t read_cached(int /*fd*/, std::byte* /*data*/, size_t /*size*/) { return -EAGAIN; }
  virtual ssize_t write(int fd, const std::byte* data, size_t size) = 0;
  virtual int sync_data(int fd) = 0;
  // Makes the names of a directory last through a power cut.
  virtual int sync_dir(int dir, const std::string& path) = 0;
  virtual int allocate(int fd, uint64_t size) = 0;
  virtual int touch(int fd) = 0;
  virtual int rename(int dir, const std::string& from, const std::string& to) = 0;
  virtual int unlink(int dir, const std::string& path) = 0;
  // A directory with all that is in it, as deep as anybody needs; links in it are removed, not followed.
  virtual int remove_tree(int /*dir*/, const std::string& /*path*/) { return -EISDIR; }
  virtual int mkdir(int dir, const std::string& path) = 0;
  virtual int lock(int fd) = 0;  // exclusive, not waiting
  virtual int list(int dir, const std::string& path, std::vector<DirEntry>& entries) = 0;
};

class PosixFs : public Fs {
 public:
  int open(int dir, const std::string& path, int flags, mode_t mode) override;
  int stat(int fd, struct stat& info) override;
  ssize_t read(int fd, std::byte* data, size_t size) override;
  int open_cached(int dir, const std::string& path, int flags) override;
  ssize_t read_cached(int fd, std::byte* data, size_t size) override;
  ssize_t write(int fd, const std::byte* data, size_t size) override;
  int sync_data(int fd) override;
  int sync_dir(int dir, const std::string& path) override;
  int allocate(int fd, uint64_t size) override;
  int touch(int fd) override;
  int rename(int dir, const std::string& from, const std::string& to) override;
  int unlink(int dir, const std::string& path) override;
  int remove_tree(int dir, const std::string& path) override;
  int mkdir(int dir, const std::string& path) override;
  int lock(int fd) override;
  int list(int dir, const std::string& path, std::vector<DirEntry>& entries) override;
};

}  // namespace kiln::server
