// Memory for the arrays of kernels on CPUs, placed where the threads that use it run.
//
// A page lies on the memory node of the thread that writes to it first. An array that one thread fills is therefore on
// one node, whose memory all other nodes then wait for. Here each thread of a launch touches the share of the pages
// that its programs work on, where programs follow each other in memory as their numbers do: a launch gives thread i of
// n the programs from i/n to (i+1)/n of the grid, and lets it help others when it is done. This needs threads that stay
// where they are, so processes on machines of several nodes set OMP_PROC_BIND=close (and OMP_PLACES=cores).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kiln/dsl/result.h"

namespace kiln::client {

class HostMemory {
 public:
  // Zeros, 64-byte aligned; from 4 MiB on in pages of 2 MiB, where the system has them to give. `threads` as in
  // LaunchOptions: as many as the launches will use, 0 for OpenMP's default. kOutOfMemory where there is not enough.
  static Result<HostMemory> allocate(uint64_t bytes, int threads = 0);

  std::byte* data() const { return memory_.get(); }
  uint64_t size() const { return memory_ ? memory_.get_deleter().bytes : 0; }

  // All of it as elements of a type; bytes behind the last whole one are left out.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), static_cast<size_t>(size() / sizeof(T))};
  }

 private:
  struct Unmap {
    uint64_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  explicit HostMemory(std::byte* memory, uint64_t bytes) : memory_(memory, Unmap{bytes}) {}
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace kiln::client

namespace kiln {
using client::HostMemory;
}  // namespace kiln
