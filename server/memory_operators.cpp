// kilnd's operator new: what malloc() does not give is taken from the reserve (src/memory_reserve.h). The other forms
// of the operators, but for those of larger alignment, call these. In a file of its own, where nobody can see through
// the operators and compare them with each other.
#include <algorithm>
#include <cstdlib>
#include <new>

#include "memory_reserve.h"

using kiln::server::memory_reserve;

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  void* const out = std::malloc(std::max<size_t>(bytes, 1));
  return out ? out : memory_reserve.take(bytes);
}
void* operator new(size_t bytes) {
  if (void* const out = operator new(bytes, std::nothrow)) return out;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  memory_reserve.owns(block) ? memory_reserve.give_back(block) : std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }
