// The blocks are a best-fit heap of Boost's within one mapping.
#include "memory_reserve.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

namespace kiln::server {
namespace {

using Heap = boost::interprocess::rbtree_best_fit<boost::interprocess::null_mutex_family, void*>;

Heap& heap_at(std::byte* begin) { return *std::launder(reinterpret_cast<Heap*>(begin)); }

size_t stack_of_a_thread() {
  pthread_attr_t usual{};
  size_t out = 0;
  if (::pthread_attr_init(&usual) != 0) return out;
  ::pthread_attr_getstacksize(&usual, &out);
  ::pthread_attr_destroy(&usual);
  return out;
}

}  // namespace

// Never destroyed: operator delete is called to the very end.
constinit MemoryReserve memory_reserve;
static_assert(std::is_trivially_destructible_v<MemoryReserve>);

Result<void> MemoryReserve::open() {
  constexpr size_t kThreads = 8;
  const size_t stacks = kThreads * stack_of_a_thread();
  void* const memory =
      ::mmap(nullptr, kBytes + stacks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return error(ErrorCode::kResourceExhausted,
                 "less than " + std::to_string((kBytes + stacks) >> 20) +
                     " MiB of memory can be had, for a reserve and the stacks of threads (ulimit -v, -s): " +
                     std::strerror(errno));
  }
  ::munmap(static_cast<std::byte*>(memory) + kBytes, stacks);
  new (memory) Heap(kBytes, 0);
  begin_ = static_cast<std::byte*>(memory);
  empty_ = free_bytes();
  owner_ = ::gettid();
  return {};
}

size_t MemoryReserve::free_bytes() const noexcept { return heap_at(begin_).get_free_memory(); }

size_t MemoryReserve::used() noexcept {
  const std::lock_guard lock(mutex_);
  return begin_ ? empty_ - free_bytes() : 0;
}

bool MemoryReserve::has(size_t bytes) noexcept {
  if (free_bytes() > kBytes / 2) return true;
  return (bytes <= kSmall && ::gettid() == owner_) || std::uncaught_exceptions() > 0;
}

void* MemoryReserve::take(size_t bytes) noexcept {
  if (!begin_ || bytes > kMostAtOnce) return nullptr;
  wanted_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  void* const out = has(bytes) ? heap_at(begin_).allocate(bytes) : nullptr;
  if (!out) refused_.fetch_add(1, std::memory_order_relaxed);
  return out;
}

void MemoryReserve::give_back(void* block) noexcept {
  const std::lock_guard lock(mutex_);
  heap_at(begin_).deallocate(block);
}

}  // namespace kiln::server
