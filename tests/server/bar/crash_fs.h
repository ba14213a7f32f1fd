// A file system in memory that can lose power: what was not synced is dropped, kept or torn, in any order.
//
// A file has what was written and what was synced. A directory has its names as they are, and the changes to them since
// it was last synced. A crash keeps each such change or not, whatever became of the others; a file whose data was not
// synced keeps any length of it, with any byte gone.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <memory>
#include <random>

#include "cache/fs.h"

namespace kiln::server {

class CrashFs : public Fs {
 public:
  explicit CrashFs(uint64_t seed) : random_(seed) { now_["."] = {}, lasting_["."] = {}; }

  // A disk that says "synced" and is not: entries may be torn then, which is for the checks to notice.
  bool lies = false;

  // The power goes; afterwards everything is as the disk has it.
  void lose_power() {
    for (const Change& change : pending_) {
      if (random_() % 2) last(change);
    }
    pending_.clear();
    forget_unreachable();
    now_ = lasting_;
    for (auto& [dir, names] : now_) {
      for (auto& [name, file] : names) {
        if (file) tear(*file);
      }
    }
    open_.clear();
    locked_ = false;
  }

  int open(int, const std::string& path, int flags, mode_t) override {
    const auto [dir, name] = split(path);
    if (!now_.contains(dir)) return -ENOENT;
    auto& names = now_[dir];
    auto it = names.find(name);
    if (it != names.end() && (flags & O_EXCL)) return -EEXIST;
    if (it == names.end() && !(flags & O_CREAT)) return -ENOENT;
    if (it == names.end()) it = change(dir, name, std::make_shared<File>());
    open_[next_fd_] = {it->second, 0};
    return next_fd_++;
  }
  int stat(int fd, struct stat& info) override {
    info.st_mode = S_IFREG | 0400;
    info.st_size = static_cast<off_t>(open_.at(fd).file->data.size());
    return 0;
  }
  ssize_t read(int fd, std::byte* data, size_t size) override {
    auto& [file, at] = open_.at(fd);
    size = std::min(size, file->data.size() - at);
    std::copy_n(file->data.begin() + static_cast<ptrdiff_t>(at), size, data);
    at += size;
    return static_cast<ssize_t>(size);
  }
  ssize_t write(int fd, const std::byte* data, size_t size) override {
    open_.at(fd).file->data.insert(open_.at(fd).file->data.end(), data, data + size);
    return static_cast<ssize_t>(size);
  }
  int sync_data(int fd) override {
    File& file = *open_.at(fd).file;
    if (!lies) file.synced = file.data;
    return 0;
  }
  int sync_dir(int, const std::string& path) override {
    if (!now_.contains(path)) return -ENOENT;
    for (const Change& change : pending_) {
      if (change.dir == path) last(change);
    }
    std::erase_if(pending_, [&](const Change& change) { return change.dir == path; });
    return 0;
  }
  int allocate(int, uint64_t) override { return 0; }
  int touch(int) override { return 0; }
  int rename(int, const std::string& from, const std::string& to) override {
    const auto [from_dir, from_name] = split(from);
    const auto [to_dir, to_name] = split(to);
    if (!now_.contains(from_dir) || !now_.contains(to_dir) || !now_[from_dir].contains(from_name)) return -ENOENT;
    change(to_dir, to_name, now_[from_dir][from_name]);
    now_[from_dir].erase(from_name);
    pending_.push_back({from_dir, from_name, nullptr, false});
    return 0;
  }
  int unlink(int, const std::string& path) override {
    const auto [dir, name] = split(path);
    if (!now_.contains(dir) || now_[dir].erase(name) == 0) return -ENOENT;
    pending_.push_back({dir, name, nullptr, false});
    return 0;
  }
  int mkdir(int, const std::string& path) override {
    const auto [dir, name] = split(path);
    if (!now_.contains(dir)) return -ENOENT;
    if (now_.contains(path)) return -EEXIST;
    now_[path] = {};
    change(dir, name, nullptr, true);
    return 0;
  }
  int lock(int) override { return std::exchange(locked_, true) ? -EWOULDBLOCK : 0; }
  int list(int, const std::string& path, std::vector<DirEntry>& entries) override {
    if (!now_.contains(path)) return -ENOENT;
    for (const auto& [name, file] : now_[path]) entries.push_back({name, !file, file ? file->data.size() : 0, 0});
    return 0;
  }

 private:
  struct File {
    std::vector<std::byte> data, synced;
  };
  using FilePtr = std::shared_ptr<File>;  // null: a directory
  using Names = std::map<std::string, FilePtr>;
  struct Change {
    std::string dir, name;
    FilePtr file;  // null: removed, or a directory was made
    bool made;
  };
  struct Open {
    FilePtr file;
    size_t at;
  };

  static std::pair<std::string, std::string> split(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {".", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
  }
  // The change is on the disk.
  void last(const Change& change) {
    if (change.file || change.made) {
      lasting_[change.dir][change.name] = change.file;
      if (change.made) lasting_.try_emplace(change.dir == "." ? change.name : change.dir + "/" + change.name);
    } else {
      lasting_[change.dir].erase(change.name);
    }
  }
  Names::iterator change(const std::string& dir, const std::string& name, FilePtr file, bool made = false) {
    pending_.push_back({dir, name, file, made});
    return now_[dir].insert_or_assign(name, std::move(file)).first;
  }
  // Directories whose names did not last are gone with all they had.
  void forget_unreachable() {
    for (bool again = true; again;) {
      again = std::erase_if(lasting_, [&](const auto& item) {
                if (item.first == ".") return false;
                const auto [dir, name] = split(item.first);
                return !lasting_.contains(dir) || !lasting_[dir].contains(name);
              }) > 0;
    }
  }
  void tear(File& file) {
    if (file.data == file.synced) return;
    const size_t size = file.data.empty() ? 0 : random_() % (file.data.size() + 1);
    file.data.resize(std::max(size, file.synced.size()));
    for (size_t i = file.synced.size(); i < file.data.size(); ++i) {
      if (random_() % 4 == 0) file.data[i] = std::byte{0};
    }
    file.synced = file.data;
  }

  std::mt19937_64 random_;
  std::map<std::string, Names> now_, lasting_;
  std::vector<Change> pending_;
  std::map<int, Open> open_;
  int next_fd_ = 1'000'000;  // beyond any real descriptor
  bool locked_ = false;
};

}  // namespace kiln::server
