// The engine of gpu/pipeline/bulk_engine.h in the emulated block. It works as late as it may: loads when a thread waits
// for their barrier, stores when the thread that asked for them does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln::test {

class Block;
struct Thread;

inline constexpr size_t kMaxTensorRank = 5;
using Coordinates = std::array<int32_t, kMaxTensorRank>;

// What a host would have encoded (docs/reference/artifact.md, "Tensor maps").
struct EmulatedTensorMap {
  std::byte* address = nullptr;
  size_t element_bytes = 4, rank = 1;
  std::array<int64_t, kMaxTensorRank> dims{1, 1, 1, 1, 1}, strides_bytes{}, box{1, 1, 1, 1, 1};
  int swizzle_bytes = 0;
  uint64_t fill = 0;  // bits of an element out of bounds

  int64_t box_bytes() const;
};

class BulkCopies {
 public:
  explicit BulkCopies(Block& block) : block_(block) {}

  void init_barrier(const void* barrier, int arrivals);
  void arrive(Thread& thread, const void* barrier, int64_t announced_bytes);
  void wait(Thread& thread, const void* barrier, uint32_t parity, int site);
  // Arrives once this is done, which is when the phase ends.
  void arrive_when(Thread& thread, const void* barrier, std::function<void()> done);
  void end_phase_if_complete(Thread& thread, const void* barrier) { try_to_complete(thread, find(thread, barrier)); }
  void load(Thread& thread, const EmulatedTensorMap& map, const Coordinates& at, std::byte* shared,
            const void* barrier);

  void store(Thread& thread, const EmulatedTensorMap& map, const Coordinates& at, std::byte* shared);
  void end_group(Thread& thread);
  void wait_groups(Thread& thread, size_t pending);

  // Between programs: an error where something is under way.
  std::string finish();

 private:
  struct Copy {
    const EmulatedTensorMap* map;
    Coordinates at;
    std::byte* shared;
  };
  struct Barrier {
    int arrivals = 1, missing = 1;
    int64_t announced = 0;
    uint32_t phase = 0;
    std::vector<Copy> loads;
    std::vector<std::function<void()>> done;
  };
  struct Stores {
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
  };

  Barrier& find(Thread& thread, const void* barrier);
  void try_to_complete(Thread& thread, Barrier& barrier);
  void check(Thread& thread, const Copy& copy);
  void perform(Thread& thread, const Copy& copy, bool is_load);

  Block& block_;
  std::map<const void*, Barrier> barriers_;
  std::map<const Thread*, Stores> stores_;
};

}  // namespace kiln::test
