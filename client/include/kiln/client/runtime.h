// Compiled code in this process: loading an artifact's shared object, and running the programs of a grid on threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kiln/client/cpu_abi.h"
#include "kiln/dsl/result.h"

namespace kiln::client {

// A loaded shared object; unloaded with the last reference.
class Module {
 public:
  // `entry` is the symbol to call. The bytes are not needed afterwards.
  static Result<std::shared_ptr<const Module>> load(std::span<const std::byte> shared_object, const std::string& entry);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  kiln_entry_fn entry() const { return entry_; }

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* handle_;
  kiln_entry_fn entry_ = nullptr;
};

// One launch on the CPU.
struct CpuLaunch {
  kiln_entry_fn entry = nullptr;
  const void* params = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint64_t scratch_bytes = 0;  // per thread
  int threads = 0;             // 0: OpenMP's default; 1 where the caller is already inside a parallel region
};

// Runs every program; returns 0 or the first error code that a call gave (then some programs may not have run).
int32_t run_programs(const CpuLaunch& launch);

// What run_programs returns, besides the codes of the kernel itself, when scratch memory could not be had.
inline constexpr int32_t kNoScratchMemory = -1000;

}  // namespace kiln::client
