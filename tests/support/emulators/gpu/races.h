// Finds accesses of different threads to the same bytes, one of them a write, that no barrier orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::test {

class Races {
 public:
  explicit Races(size_t bytes) : bytes_(bytes) {}

  // Bytes from `offset` on are accessed by a thread in an epoch: those of barriers follow each other. For writes
  // `values` is what the bytes are afterwards; two threads may write the same. True where there is a race.
  bool read(size_t offset, size_t count, int thread, uint64_t epoch);
  bool write(size_t offset, size_t count, int thread, uint64_t epoch, const std::byte* values);

 private:
  static constexpr int kSeveral = -1;
  struct Byte {
    uint64_t written = 0, read = 0;  // in which epoch
    int writer = 0, reader = 0;
    std::byte value{};
  };
  std::vector<Byte> bytes_;
};

}  // namespace kiln::test
