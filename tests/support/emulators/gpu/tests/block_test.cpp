// What the emulator finds: threads that are functions of this file instead of compiled code.
#include "block.h"

#include <gtest/gtest.h>

#include <cstring>

namespace kiln::test {
namespace {

constexpr ThreadOrder kOrders[] = {ThreadOrder::kForward, ThreadOrder::kReverse, ThreadOrder::kRandom};

Thread& self(void* thread) { return *static_cast<Thread*>(thread); }

std::string run(EmulatedEntry entry, ThreadOrder order, std::vector<GlobalBuffer> buffers = {}) {
  Block block({entry, 4, 8, 64}, nullptr, std::move(buffers));
  const Program program{{1, 2, 3}, {4, 4, 4}};
  Result<void> first = block.run(program, order);
  if (!first) return first.error().message;
  Result<void> second = block.run(program, order);
  return second ? "" : second.error().message;
}

void write_shared(Thread& thread, std::byte* shared, size_t at, int value) {
  shared[at] = static_cast<std::byte>(value);
  thread.block->check_shared(thread, shared + at, 1, true);
}

void read_shared(Thread& thread, std::byte* shared, size_t at) {
  thread.block->check_shared(thread, shared + at, 1, false);
}

void exchange(const std::byte*, void* thread, std::byte* shared) {
  Thread& me = self(thread);
  const auto number = static_cast<size_t>(me.number);
  write_shared(me, shared, number, me.number);
  me.block->barrier(me, 1);
  read_shared(me, shared, 7 - number);
  if (shared[7 - number] != static_cast<std::byte>(7 - me.number)) me.block->fail(me, "wrong byte");
}

void exchange_without_barrier(const std::byte*, void* thread, std::byte* shared) {
  Thread& me = self(thread);
  write_shared(me, shared, static_cast<size_t>(me.number), me.number);
  read_shared(me, shared, static_cast<size_t>(7 - me.number));
}

void overwrite_without_barrier(const std::byte*, void* thread, std::byte* shared) {
  Thread& me = self(thread);
  read_shared(me, shared, 0);
  if (me.number == 3) write_shared(me, shared, 0, 1);
}

void write_the_same(const std::byte*, void* thread, std::byte* shared) { write_shared(self(thread), shared, 5, 42); }

TEST(EmulatedBlock, SharedMemoryNeedsBarriersBetweenThreads) {
  for (ThreadOrder order : kOrders) {
    EXPECT_EQ(run(exchange, order), "");
    EXPECT_EQ(run(write_the_same, order), "");
    EXPECT_NE(run(exchange_without_barrier, order).find("no barrier since another thread's access"), std::string::npos);
    EXPECT_NE(run(overwrite_without_barrier, order).find("no barrier since another thread's access"),
              std::string::npos);
  }
}

TEST(EmulatedBlock, SharedMemoryHasAnEnd) {
  const auto beyond = [](const std::byte*, void* thread, std::byte* shared) { read_shared(self(thread), shared, 64); };
  EXPECT_NE(run(beyond, ThreadOrder::kForward)
                .find("program (1, 2, 3): read of shared memory, 1 bytes at 64: outside "
                      "the block's 64"),
            std::string::npos);
}

TEST(EmulatedBlock, ABarrierIsForAllThreads) {
  const auto some = [](const std::byte*, void* thread, std::byte*) {
    if (self(thread).number != 6) self(thread).block->barrier(self(thread), 1);
  };
  const auto different = [](const std::byte*, void* thread, std::byte*) {
    self(thread).block->barrier(self(thread), self(thread).number < 4 ? 1 : 2);
  };
  for (ThreadOrder order : kOrders) {
    EXPECT_EQ(run(some, order),
              "threads wait for ever: thread 0 waits at a barrier (place 1), thread 6 has ended (place 0), thread 7 "
              "waits at a barrier (place 1)");
    EXPECT_NE(run(different, order).find("threads wait for ever"), std::string::npos);
  }
}

TEST(EmulatedBlock, AWarpMeetsAtOneInstruction) {
  const auto some = [](const std::byte*, void* thread, std::byte*) {
    Thread& me = self(thread);
    if (me.number != 6 && me.block->meet_warp(me, 1)) me.block->release_warp(me);
  };
  const auto different = [](const std::byte*, void* thread, std::byte*) {
    Thread& me = self(thread);
    if (me.block->meet_warp(me, me.number)) me.block->release_warp(me);
  };
  for (ThreadOrder order : kOrders) {
    EXPECT_NE(run(some, order).find("threads wait for ever"), std::string::npos);
    EXPECT_NE(run(different, order).find("the lanes of a warp are at different instructions"), std::string::npos);
  }
}

TEST(EmulatedBlock, GlobalAccessesStayInsideAlignedBuffers) {
  alignas(16) static std::byte memory[32];
  const std::vector<GlobalBuffer> buffers = {{"x", memory, 12}};
  const auto inside = [](const std::byte*, void* thread, std::byte*) {
    self(thread).block->check_global(self(thread), memory + 8, 4, "load");
  };
  const auto beyond = [](const std::byte*, void* thread, std::byte*) {
    self(thread).block->check_global(self(thread), memory + 8, 8, "load");
  };
  const auto unaligned = [](const std::byte*, void* thread, std::byte*) {
    self(thread).block->check_global(self(thread), memory + 2, 4, "store");
  };
  EXPECT_EQ(run(inside, ThreadOrder::kForward, buffers), "");
  EXPECT_NE(run(beyond, ThreadOrder::kForward, buffers)
                .find("load of 8 bytes outside all buffers, 8 bytes from the start of `x`, which has 12"),
            std::string::npos);
  EXPECT_NE(run(unaligned, ThreadOrder::kForward, buffers).find("store of 4 bytes: unaligned"), std::string::npos);
}

TEST(EmulatedBlock, GlobalMemoryNeedsBarriersBetweenThreads) {
  alignas(16) static std::byte memory[8];
  const std::vector<GlobalBuffer> buffers = {{"x", memory, 8}};
  static constexpr auto kStore = [](Thread& me, size_t at) {
    memory[at] = static_cast<std::byte>(me.number);
    me.block->check_global_order(me, memory + at, 1, true);
  };
  const auto shifted = [](const std::byte*, void* thread, std::byte*) {
    Thread& me = self(thread);
    me.block->check_global_order(me, memory + me.number, 1, false);
    kStore(me, static_cast<size_t>(me.number ^ 1));
  };
  const auto ordered = [](const std::byte*, void* thread, std::byte*) {
    Thread& me = self(thread);
    me.block->check_global_order(me, memory + me.number, 1, false);
    me.block->barrier(me, 1);
    kStore(me, static_cast<size_t>(me.number ^ 1));
  };
  for (ThreadOrder order : kOrders) {
    EXPECT_EQ(run(ordered, order, buffers), "");
    EXPECT_NE(run(shifted, order, buffers).find("of `x`: no barrier since another thread's access"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln::test
