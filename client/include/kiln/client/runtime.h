// Compiled code in this process: loading an artifact's shared object, and running the programs of a grid on threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kiln/abi/cpu_abi.h"
#include "kiln/dsl/result.h"

namespace kiln::client {

// A loaded shared object; unloaded with the last reference.
class Module {
 public:
  // `entry` is the symbol to call. The bytes are not needed afterwards.
  static Result<std::shared_ptr<const Module>> load(std::span<const std::byte> shared_object, const std::string& entry);
  // Of a file, which a debugger and a profiler find under its name.
  static Result<std::shared_ptr<const Module>> open(const std::string& path, const std::string& entry);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  kiln_entry_fn entry() const { return entry_; }
  // Another entry, of a plan; null when there is none of that name.
  kiln_entry_fn find(const std::string& entry) const;

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

  // As in kiln_ctx; `print` is called by one thread at a time.
  void* workspace = nullptr;
  const int64_t* extents = nullptr;
  kiln_print_fn print = nullptr;
  void* print_data = nullptr;
};

// Runs every program; returns 0 or the first error code that a call gave (then some programs may not have run), with
// what the call wrote into its kiln_failure.
int32_t run_programs(const CpuLaunch& launch, kiln_failure* failure = nullptr);

// Memory of a thread that outlives a launch, so that the next one need not ask the system; it grows and goes with the
// thread. Where the thread's is in use further up its stack (a print that launches a kernel), this is new memory.
class ThreadMemory {
 public:
  enum class Use : uint8_t { kScratch, kWorkspace };
  explicit ThreadMemory(Use use);
  ~ThreadMemory();
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  // 64-byte aligned; null when there is no memory.
  void* get(uint64_t bytes);

 private:
  Use use_;
  void* memory_;
  uint64_t size_;
};

// What run_programs returns, besides the codes of the kernel itself, when scratch memory could not be had.
inline constexpr int32_t kNoScratchMemory = -1000;

}  // namespace kiln::client
