// What there is when malloc() gives nothing, and what is done about it.
#include "memory_reserve.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "memory_watch.h"

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;

// Blocks of this size until there are no more.
std::vector<void*> take_all(MemoryReserve& reserve, size_t bytes) {
  std::vector<void*> out;
  out.reserve(MemoryReserve::kBytes / bytes);
  while (void* block = reserve.take(bytes)) out.push_back(block);
  return out;
}

void give_back(MemoryReserve& reserve, const std::vector<void*>& blocks) {
  for (void* block : blocks) reserve.give_back(block);
}

// What this may have while somebody is thrown an exception.
struct TakesAtItsEnd {
  MemoryReserve& reserve;
  void*& block;
  ~TakesAtItsEnd() { block = reserve.take(MemoryReserve::kMostAtOnce); }
};

TEST(MemoryReserve, IsEmptyUntilItIsOpened) {
  MemoryReserve reserve;
  EXPECT_EQ(reserve.take(1), nullptr);
  EXPECT_FALSE(reserve.owns(nullptr));
  EXPECT_FALSE(reserve.owns(&reserve));
  EXPECT_EQ(reserve.wanted(), 0u);
  EXPECT_EQ(reserve.used(), 0u);
}

TEST(MemoryReserve, GivesBlocksAndTakesThemBack) {
  MemoryReserve reserve;
  ASSERT_TRUE(reserve.open());
  std::vector<void*> blocks;
  for (size_t size = 0; size <= MemoryReserve::kMostAtOnce; size = size * 2 + 1) {
    blocks.push_back(reserve.take(size));
    ASSERT_NE(blocks.back(), nullptr) << size;
    EXPECT_TRUE(reserve.owns(blocks.back()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0u);
    std::memset(blocks.back(), 0xff, size);
  }
  EXPECT_EQ(reserve.wanted(), blocks.size());
  EXPECT_GT(reserve.used(), MemoryReserve::kMostAtOnce);
  EXPECT_EQ(reserve.take(MemoryReserve::kMostAtOnce + 1), nullptr);
  EXPECT_EQ(reserve.wanted(), blocks.size()) << "what is so large says nothing about small ones";
  give_back(reserve, blocks);
  EXPECT_EQ(reserve.used(), 0u);
  EXPECT_EQ(reserve.refused(), 0u);
  EXPECT_FALSE(reserve.owns(nullptr));
  EXPECT_FALSE(reserve.owns(&reserve));
}

TEST(MemoryReserve, OtherThreadsLeaveHalfOfIt) {
  MemoryReserve reserve;
  ASSERT_TRUE(reserve.open());
  std::vector<void*> theirs, large, small;
  void* thrown = nullptr;
  std::thread([&] {
    theirs = take_all(reserve, 100);
    EXPECT_EQ(reserve.refused(), 1u);
    EXPECT_NEAR(static_cast<double>(reserve.used()), MemoryReserve::kBytes / 2, 1 << 10);
    try {
      const TakesAtItsEnd taker{reserve, thrown};
      throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
    }
  }).join();
  EXPECT_NE(thrown, nullptr) << "another failure would end the process";
  large = take_all(reserve, MemoryReserve::kSmall + 1);
  EXPECT_EQ(large.size(), 0u);
  small = take_all(reserve, MemoryReserve::kSmall);
  EXPECT_GT(small.size(), MemoryReserve::kBytes / 2 / MemoryReserve::kSmall * 9 / 10);
  give_back(reserve, theirs);
  give_back(reserve, small);
  reserve.give_back(thrown);
  EXPECT_EQ(reserve.used(), 0u);
  large = take_all(reserve, MemoryReserve::kMostAtOnce);
  EXPECT_GT(large.size(), MemoryReserve::kBytes / 2 / MemoryReserve::kMostAtOnce - 2) << "no piece is lost";
}

TEST(MemoryReserve, ThreadsTakeFromItAtOnce) {
  MemoryReserve reserve;
  ASSERT_TRUE(reserve.open());
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&, mark] {
      for (size_t round = 0; round < 2000; ++round) {
        const size_t size = 1 + round % 500;
        std::vector<unsigned char*> blocks;
        for (int i = 0; i < 10; ++i) {
          blocks.push_back(static_cast<unsigned char*>(reserve.take(size)));
          ASSERT_NE(blocks.back(), nullptr);
          std::memset(blocks.back(), mark, size);
        }
        for (unsigned char* block : blocks) {
          EXPECT_EQ(block[0], mark);
          EXPECT_EQ(block[size - 1], mark);
          reserve.give_back(block);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(reserve.used(), 0u);
  EXPECT_EQ(reserve.wanted(), 4u * 2000 * 10);
}

TEST(MemoryWatch, MemoryIsShortForAWhileOnceTheReserveWasDrawnOn) {
  MemoryReserve reserve;
  ASSERT_TRUE(reserve.open());
  MemoryWatch watch;
  EXPECT_FALSE(watch.is_short()) << "there is nothing to look at";
  int relieved = 0;
  std::vector<void*> blocks;
  watch.start(reserve, [&] {
    ++relieved;
    blocks.push_back(reserve.take(1));  // what it says about it
  });
  EXPECT_FALSE(watch.is_short());
  blocks.push_back(reserve.take(1));
  EXPECT_TRUE(watch.is_short());
  EXPECT_TRUE(watch.is_short());
  EXPECT_EQ(relieved, 1);
  blocks.push_back(reserve.take(1));
  EXPECT_TRUE(watch.is_short());
  EXPECT_EQ(relieved, 2);
  const auto begun = std::chrono::steady_clock::now();
  while (watch.is_short()) std::this_thread::sleep_for(1ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, MemoryWatch::kRest / 2);
  EXPECT_EQ(relieved, 2);
  give_back(reserve, blocks);
}

}  // namespace
}  // namespace kiln::server
