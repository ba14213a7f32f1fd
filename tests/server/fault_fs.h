// The disk tier without a daemon: a file system whose every call can be made to fail, and entries for it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <random>

#include "cache/disk_cache.h"
#include "kiln/wire/paths.h"
#include "service_fixture.h"

namespace kiln::server {

// Fails call number `fail_at` (counted from 0 over all functions) with `number`.
class FaultFs : public PosixFs {
 public:
  int fail_at = -1, number = EIO;
  int calls = 0;

  int open(int dir, const std::string& path, int flags, mode_t mode) override {
    return fails() ? -number : PosixFs::open(dir, path, flags, mode);
  }
  int stat(int fd, struct stat& info) override { return fails() ? -number : PosixFs::stat(fd, info); }
  ssize_t read(int fd, std::byte* data, size_t size) override {
    return fails() ? -number : PosixFs::read(fd, data, size);
  }
  int open_cached(int dir, const std::string& path, int flags) override {
    return fails() ? -number : PosixFs::open_cached(dir, path, flags);
  }
  ssize_t read_cached(int fd, std::byte* data, size_t size) override {
    return fails() ? -number : PosixFs::read_cached(fd, data, size);
  }
  ssize_t write(int fd, const std::byte* data, size_t size) override {
    return fails() ? -number : PosixFs::write(fd, data, size);
  }
  // Neither synced nor allocated in truth: thousands of stores would take minutes on a slow disk.
  int sync_data(int) override { return fails() ? -number : 0; }
  int sync_dir(int, const std::string&) override { return fails() ? -number : 0; }
  int allocate(int, uint64_t) override { return fails() ? -number : 0; }
  int touch(int fd) override { return fails() ? -number : PosixFs::touch(fd); }
  int rename(int dir, const std::string& from, const std::string& to) override {
    return fails() ? -number : PosixFs::rename(dir, from, to);
  }
  int unlink(int dir, const std::string& path) override { return fails() ? -number : PosixFs::unlink(dir, path); }
  int mkdir(int dir, const std::string& path) override { return fails() ? -number : PosixFs::mkdir(dir, path); }
  int lock(int fd) override { return fails() ? -number : PosixFs::lock(fd); }
  int list(int dir, const std::string& path, std::vector<DirEntry>& entries) override {
    return fails() ? -number : PosixFs::list(dir, path, entries);
  }

 private:
  bool fails() { return calls++ == fail_at; }
};

inline RequestKey key_number(uint64_t number) {
  RequestKey key{};
  std::mt19937_64 random(number);
  for (auto& byte : key) byte = static_cast<uint8_t>(random());
  return key;
}

inline std::vector<std::byte> entry(const RequestKey& key, size_t size = 500, const std::string& builder = "b") {
  std::vector<std::byte> code(size, std::byte{42});
  return *wire::encode_entry({.key = key, .builder_id = builder, .target_kind = "cpu", .metadata = "{}", .code = code});
}

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCache make(uint64_t limit = 1 << 20) { return {fs_, log_, dir_ / "cache", "b", limit}; }

  // A distinct age for each entry: of the smallest number the oldest.
  void set_age(uint64_t number) {
    const std::string hex = to_hex(key_number(number));
    const std::string file =
        dir_ / ("cache/v1/" + wire::builder_directory("b") + "/" + hex.substr(0, 2) + "/" + hex.substr(2));
    const timespec time{1'000'000 + static_cast<time_t>(number), 0}, times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }

  service_test::TempDir dir_;
  FaultFs fs_;
  Log log_{dir_ / "log", "warn"};
};

}  // namespace kiln::server
