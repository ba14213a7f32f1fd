#include "kiln/client/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "parallel.h"

namespace kiln::client {
namespace {

constexpr uint64_t kLargePages = uint64_t{4} << 20;

uint64_t page_bytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// Each thread writes to the pages of its share, the split of run_programs.
void touch(std::byte* memory, uint64_t bytes, int threads) {
  const uint64_t page = page_bytes();
  const uint64_t pages = (bytes + page - 1) / page;
  in_parallel(threads, [&](int part, int parts) {
    const auto mine = static_cast<uint64_t>(part), count = static_cast<uint64_t>(parts);
    for (uint64_t i = pages * mine / count; i < pages * (mine + 1) / count; ++i) memory[i * page] = std::byte{0};
  });
}

}  // namespace

void HostMemory::Unmap::operator()(std::byte* memory) const { ::munmap(memory, std::max<uint64_t>(bytes, 1)); }

Result<HostMemory> HostMemory::allocate(uint64_t bytes, int threads) {
  const uint64_t mapped = std::max<uint64_t>(bytes, 1);
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return error(ErrorCode::kOutOfMemory, "no memory for an array of " + std::to_string(bytes) + " bytes");
  }
  // Advice: without it the pages are small, and that is all.
  if (bytes >= kLargePages) (void)::madvise(memory, mapped, MADV_HUGEPAGE);
  touch(static_cast<std::byte*>(memory), mapped, threads_to_use(threads));
  return HostMemory(static_cast<std::byte*>(memory), bytes);
}

}  // namespace kiln::client
