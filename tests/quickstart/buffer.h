// The arrays of the quickstart and of the benchmarks.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "kiln/client/host_memory.h"

namespace kiln::quickstart {

// Page-aligned memory, placed for all threads. Copies are the same memory.
template <class M>
class Buffer {
 public:
  explicit Buffer(size_t count) : memory_(memory_of(count * sizeof(M))), size_(count) {}
  M* get() const { return reinterpret_cast<M*>(memory_->data()); }
  size_t size() const { return size_; }
  M& operator[](size_t i) const { return get()[i]; }

 private:
  static std::shared_ptr<client::HostMemory> memory_of(size_t bytes) {
    auto memory = client::HostMemory::allocate(bytes);
    if (memory) return std::make_shared<client::HostMemory>(std::move(*memory));
    std::fprintf(stderr, "%s\n", memory.error().message.c_str());
    std::exit(1);
  }
  std::shared_ptr<client::HostMemory> memory_;
  size_t size_;
};

}  // namespace kiln::quickstart
