#include "nvptx/occupancy.h"

#include <algorithm>

namespace kiln::codegen::nvptx {
namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr int kRegisters = 65536;  // of a multiprocessor
constexpr int kRegisterUnit = 8;   // that a thread gets
constexpr int kThreads = 1024;

int rounded_up(int registers) { return (registers + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit; }

}  // namespace

std::vector<int> worthwhile_blocks(const Resources& resources, int threads) {
  const int now = kRegisters / (std::max(1, rounded_up(resources.registers)) * threads);
  std::vector<int> out;
  for (int blocks = std::max(2, kThreads / threads); blocks > std::max(now, 1); blocks /= 2) {
    const int registers = kRegisters / (blocks * threads);
    if (3 * registers >= 2 * resources.registers) out.push_back(blocks);
  }
  return out;
}

std::string with_blocks(const std::string& ptx, int blocks) {
  const size_t at = ptx.find(".maxntid");
  return ptx.substr(0, at) + ".minnctapersm " + std::to_string(blocks) + "\n" + ptx.substr(at);
}

}  // namespace kiln::codegen::nvptx
