// Directories of tests that a daemon works in.
#pragma once

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

namespace kiln::test {

// A daemon that was told to leave may still be writing: what it adds while all is removed is removed with the next try,
// for 10 s at most.
inline void remove_scratch(const std::filesystem::path& directory) {
  std::error_code problem;
  for (int i = 0; i < 200; ++i) {
    std::filesystem::remove_all(directory, problem);
    if (!problem) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace kiln::test
