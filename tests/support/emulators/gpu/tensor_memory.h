// The tensor memory of gpu/dot/tensor_engine.h in the emulated block. Products run as late as they may: when a thread
// waits for the barrier of their commit.
//
// Beyond what Block finds these are errors of a kernel: cells that nobody has allocated, or released, or that lie in
// another warp's lanes; sums that are read, or written over, before the thread has waited for their product; cells that
// a product meets with no barrier, or no fence on either side of it, since another thread had them; products and
// columns that are left behind.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kiln::test {

class Block;
struct Thread;

class EmulatedTensorMemory {
 public:
  explicit EmulatedTensorMemory(Block& block) : block_(block) {}

  // By the last lane of a warp to come.
  uint32_t allocate(Thread& thread, int columns);
  void release(Thread& thread, uint32_t address, int columns);

  void load(Thread& thread, uint32_t address, int columns, uint32_t* words);
  void store(Thread& thread, uint32_t address, int columns, const uint32_t* words);
  void before_barrier(Thread& thread);
  void after_barrier(Thread& thread);

  // `add` gets the sums so far, as bits, 128 rows of the columns, and leaves the new ones there.
  using Add = std::function<void(std::span<uint32_t> sums)>;
  void multiply(Thread& thread, uint32_t address, int columns, bool clear, Add add);
  void commit(Thread& thread, const void* barrier);
  // The thread has waited for a barrier.
  void see(Thread& thread, const void* barrier);

  // Between programs: an error where something is left.
  std::string finish();

 private:
  static constexpr int kColumns = 512, kLanes = 128, kQuarter = 32;

  struct Cell {
    uint32_t word = 0;
    bool is_allocated = false, is_written = false, is_fenced = true;
    uint64_t product = 0;  // the last that writes it
    // Who loaded or stored it last, and when (Block::epoch_of).
    int thread = 0;
    uint64_t epoch = 0;
  };
  struct Product {
    uint64_t number;
    uint32_t address;
    int columns;
    Add add;
  };
  struct Seen {
    uint64_t product = 0;      // up to this one their ends have been waited for
    uint64_t fence_epoch = 0;  // of the last after_barrier
    std::vector<Cell*> open;   // had since the last before_barrier
  };

  bool has(int lane, int column) const {
    return lane < kLanes && column < kColumns && !cells_.empty() &&
           cells_[static_cast<size_t>(column * kLanes + lane)].is_allocated;
  }
  Cell& cell(int lane, int column) { return cells_[static_cast<size_t>(column * kLanes + lane)]; }
  // Of a thread's own lane, allocated, and with no product under way.
  Cell& own(Thread& thread, uint32_t address, int column, const char* what);
  // Barriers of commits up to there get on.
  void perform_until(Thread& thread, uint64_t product);

  Block& block_;
  std::vector<Cell> cells_;  // from the first allocation on
  struct Commit {
    uint64_t product;
    const void* barrier;
  };
  std::deque<Product> products_;
  std::deque<Commit> commits_;  // whose phases have not ended
  uint64_t last_product_ = 0;
  std::map<const void*, uint64_t> committed_;  // by barrier
  std::map<const Thread*, Seen> seen_;
};

}  // namespace kiln::test
