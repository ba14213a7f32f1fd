// Waits of tests that run on slow and busy machines: long ones, that end when what they wait for is there.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "patience.h"

namespace kiln::autotune {

inline bool eventually(const std::function<bool()>& condition) {
  constexpr auto kPoll = std::chrono::milliseconds(10);
  for (const auto end = std::chrono::steady_clock::now() + test::kPatience; !condition();) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

struct ProcessState {
  pid_t parent = 0;
  bool is_alive = false;
};
inline ProcessState state_of(pid_t pid) {
  std::string number, name, state;
  ProcessState out;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  out.is_alive = (file >> number >> name >> state >> out.parent) && state != "Z";
  return out;
}

}  // namespace kiln::autotune
