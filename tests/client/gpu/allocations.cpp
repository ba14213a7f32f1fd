// In a file of its own, where nobody can see through the operators and compare them with each other.
#include "allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local size_t count = 0;

}  // namespace

size_t kiln::test::allocations() { return count; }

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
