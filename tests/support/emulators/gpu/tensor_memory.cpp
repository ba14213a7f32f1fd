#include "tensor_memory.h"

#include <cstring>

#include "block.h"

namespace kiln::test {

uint32_t EmulatedTensorMemory::allocate(Thread& thread, int columns) {
  if (columns < kQuarter || columns > kColumns || (columns & (columns - 1)) != 0) {
    block_.fail(thread, "tensor memory comes in powers of two of 32 to 512 columns");
  }
  if (cells_.empty()) cells_.resize(size_t{kColumns} * kLanes);
  for (int first = 0; first + columns <= kColumns; first += columns) {
    bool is_free = true;
    for (int column = first; column < first + columns; ++column) is_free &= !cell(0, column).is_allocated;
    if (!is_free) continue;
    for (int column = first; column < first + columns; ++column) {
      for (int lane = 0; lane < kLanes; ++lane) {
        cell(lane, column) = {};
        cell(lane, column).is_allocated = true;
      }
    }
    return static_cast<uint32_t>(first);
  }
  block_.fail(thread, "no columns of tensor memory are left");
}

void EmulatedTensorMemory::release(Thread& thread, uint32_t address, int columns) {
  const auto refuse = [&](const char* why) { block_.fail(thread, std::string("release of tensor memory: ") + why); };
  for (int column = static_cast<int>(address); column < static_cast<int>(address) + columns; ++column) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!has(lane, column)) refuse("nobody has allocated it");
      Cell& each = cell(lane, column);
      const bool is_of_others = each.thread != thread.number && each.epoch != 0;
      if (!products_.empty() && each.product >= products_.front().number) refuse("a product is under way");
      if (is_of_others && each.epoch == block_.epoch_of(thread)) refuse("no barrier since another thread's access");
      if (!each.is_fenced) refuse("no fence in front of the barrier behind another thread's access");
      each.is_allocated = false;
    }
  }
}

EmulatedTensorMemory::Cell& EmulatedTensorMemory::own(Thread& thread, uint32_t address, int column, const char* what) {
  const auto lane = static_cast<int>(address >> 16), at = static_cast<int>(address & 0xffff) + column;
  const auto refuse = [&](const std::string& why) {
    block_.fail(thread, std::string(what) + " tensor memory, lane " + std::to_string(lane) + ", column " +
                            std::to_string(at) + ": " + why);
  };
  if (!has(lane, at)) refuse("nobody has allocated it");
  Cell& out = cell(lane, at);
  if (out.product > seen_[&thread].product) refuse("the thread has not waited for the product that writes it");
  const uint64_t now = block_.epoch_of(thread);
  if (out.thread != thread.number && out.epoch == now) refuse("no barrier since another thread's access");
  out.thread = thread.number;
  out.epoch = now;
  return out;
}

void EmulatedTensorMemory::load(Thread& thread, uint32_t address, int columns, uint32_t* words) {
  if (static_cast<int>(address >> 16) != thread.number / kQuarter % 4 * kQuarter) {
    block_.fail(thread, "load of tensor memory in another warp's lanes");
  }
  const uint32_t mine = address + (static_cast<uint32_t>(thread.lane()) << 16);
  for (int column = 0; column < columns; ++column) {
    Cell& each = own(thread, mine, column, "load of");
    if (!each.is_written) block_.fail(thread, "load of tensor memory that nobody has written");
    each.is_fenced = false;
    seen_[&thread].open.push_back(&each);
    words[column] = each.word;
  }
}

void EmulatedTensorMemory::store(Thread& thread, uint32_t address, int columns, const uint32_t* words) {
  if (static_cast<int>(address >> 16) != thread.number / kQuarter % 4 * kQuarter) {
    block_.fail(thread, "store to tensor memory in another warp's lanes");
  }
  const uint32_t mine = address + (static_cast<uint32_t>(thread.lane()) << 16);
  for (int column = 0; column < columns; ++column) {
    Cell& each = own(thread, mine, column, "store to");
    each.is_written = true;
    each.is_fenced = false;
    seen_[&thread].open.push_back(&each);
    each.word = words[column];
  }
}

void EmulatedTensorMemory::before_barrier(Thread& thread) {
  for (Cell* each : seen_[&thread].open) each->is_fenced = true;
  seen_[&thread].open.clear();
}

void EmulatedTensorMemory::after_barrier(Thread& thread) { seen_[&thread].fence_epoch = block_.epoch_of(thread); }

void EmulatedTensorMemory::multiply(Thread& thread, uint32_t address, int columns, bool clear, Add add) {
  Seen& seen = seen_[&thread];
  const auto first = static_cast<int>(address & 0xffff);
  if (address >> 16 != 0) block_.fail(thread, "a product of 128 rows begins at lane 0");
  ++last_product_;
  for (int column = first; column < first + columns; ++column) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto refuse = [&](const std::string& why) {
        block_.fail(thread, "product in tensor memory, lane " + std::to_string(lane) + ", column " +
                                std::to_string(column) + ": " + why);
      };
      if (!has(lane, column)) refuse("nobody has allocated it");
      Cell& each = cell(lane, column);
      if (!clear && !each.is_written) refuse("it adds to what nobody has written");
      if (!each.is_fenced) refuse("no fence in front of the barrier behind another thread's access");
      if (each.thread != thread.number && each.epoch != 0) {
        if (each.epoch == block_.epoch_of(thread)) refuse("no barrier since another thread's access");
        if (seen.fence_epoch <= each.epoch) refuse("no fence behind the barrier since another thread's access");
      }
      each.is_written = true;
      each.product = last_product_;
    }
  }
  products_.push_back({last_product_, address, columns, std::move(add)});
}

void EmulatedTensorMemory::perform_until(Thread& thread, uint64_t product) {
  while (!commits_.empty() && commits_.front().product < product) {
    const Commit earlier = commits_.front();
    block_.bulk().end_phase_if_complete(thread, earlier.barrier);
    if (!commits_.empty() && commits_.front().product == earlier.product) commits_.pop_front();
  }
  if (!commits_.empty() && commits_.front().product == product) commits_.pop_front();
  for (; !products_.empty() && products_.front().number <= product; products_.pop_front()) {
    const Product& now = products_.front();
    std::vector<uint32_t> sums(static_cast<size_t>(kLanes * now.columns));
    const auto each = [&](auto&& visit) {
      for (int lane = 0; lane < kLanes; ++lane) {
        for (int column = 0; column < now.columns; ++column) {
          visit(cell(lane, static_cast<int>(now.address & 0xffff) + column).word,
                sums[static_cast<size_t>(lane * now.columns + column)]);
        }
      }
    };
    each([](uint32_t& word, uint32_t& sum) { sum = word; });
    now.add(sums);
    each([](uint32_t& word, uint32_t& sum) { word = sum; });
  }
}

// The barrier's phase ends when somebody waits for it, or for that of a later commit.
void EmulatedTensorMemory::commit(Thread& thread, const void* barrier) {
  committed_[barrier] = last_product_;
  commits_.push_back({last_product_, barrier});
  block_.bulk().arrive_when(thread, barrier,
                            [this, &thread, product = last_product_] { perform_until(thread, product); });
}

void EmulatedTensorMemory::see(Thread& thread, const void* barrier) {
  const auto found = committed_.find(barrier);
  if (found == committed_.end()) return;
  uint64_t& seen = seen_[&thread].product;
  // What has run: a wait for an earlier phase than the last commit's says nothing of that one.
  const uint64_t ended = products_.empty() ? last_product_ : products_.front().number - 1;
  seen = std::max(seen, std::min(found->second, ended));
}

std::string EmulatedTensorMemory::finish() {
  std::string out;
  if (!products_.empty()) out = "nobody waits for a product in tensor memory";
  for (const Cell& each : cells_) {
    if (each.is_allocated) out = "tensor memory is not released";
  }
  committed_.clear();
  commits_.clear();
  seen_.clear();
  return out;
}

}  // namespace kiln::test
