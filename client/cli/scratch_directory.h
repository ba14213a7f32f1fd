// A directory for the files of one command.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kiln::cli {

// Of this process alone; removed with what is in it.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& name)
      : path_(std::filesystem::temp_directory_path().string() + "/" + name + ".XXXXXX") {
    if (!::mkdtemp(path_.data())) path_.clear();
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  bool is_there() const { return !path_.empty(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace kiln::cli
