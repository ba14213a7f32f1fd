// What the emulator finds of tensor memory: a block of four warps whose threads are functions of this file.
#include "tensor_memory.h"

#include <gmock/gmock.h>

#include <cstring>

#include "block.h"

namespace kiln::test {
namespace {

constexpr int kThreads = 128, kColumns = 32;

Thread& self(void* thread) { return *static_cast<Thread*>(thread); }

enum Fault {
  kNone,
  kNoAllocation,
  kOtherLanes,
  kNoWait,
  kNoStore,
  kNoFenceBefore,
  kNoFenceBehind,
  kNoBarrier,
  kNoWaitBeforeStore,
  kNoRelease,
  kUsedBehindRelease,
};
Fault fault = kNone;

bool is(Fault x) { return fault == x; }

// Every sum becomes 1 more, twice; threads begin with their number.
void sum_up(const std::byte*, void* thread, std::byte* shared) {
  Thread& me = self(thread);
  Block& block = *me.block;
  EmulatedTensorMemory& memory = block.tensor();
  auto* place = reinterpret_cast<uint32_t*>(shared);
  std::byte* barrier = shared + 8;
  if (me.number < 32 && !is(kNoAllocation) && block.meet_warp(me, 1)) {
    *place = memory.allocate(me, kColumns);
    block.release_warp(me);
  }
  if (me.number == 0) block.bulk().init_barrier(barrier, 1);
  block.barrier(me, 2);
  const uint32_t first = is(kNoAllocation) ? 0 : *place, quarter = static_cast<uint32_t>(me.number / 32) << 21;
  uint32_t words[kColumns];
  std::fill_n(words, kColumns, static_cast<uint32_t>(me.number));
  if (!is(kNoStore)) memory.store(me, first + (is(kOtherLanes) ? quarter ^ (1 << 21) : quarter), kColumns, words);
  for (int round = 0; round < (is(kNoWait) ? 1 : 2); ++round) {
    if (!is(kNoFenceBefore)) memory.before_barrier(me);
    if (!is(kNoBarrier)) block.barrier(me, 3);
    if (!is(kNoFenceBehind)) memory.after_barrier(me);
    if (me.number == 0) {
      memory.multiply(me, first, kColumns, false, [](std::span<uint32_t> sums) {
        for (uint32_t& sum : sums) ++sum;
      });
      memory.commit(me, barrier);
    }
    if (is(kNoWaitBeforeStore)) {
      block.barrier(me, 8);
      memory.store(me, first + quarter, kColumns, words);
    }
    if (is(kNoWait)) {
      block.barrier(me, 8);
    } else {
      block.bulk().wait(me, barrier, static_cast<uint32_t>(round), 4);
      memory.see(me, barrier);
    }
  }
  memory.load(me, first + quarter, kColumns, words);
  for (uint32_t word : words) {
    if (word != static_cast<uint32_t>(me.number) + 2) block.fail(me, "wrong sum");
  }
  memory.before_barrier(me);
  block.barrier(me, 5);
  if (me.number < 32 && !is(kNoRelease) && block.meet_warp(me, 6)) {
    memory.release(me, first, kColumns);
    block.release_warp(me);
  }
  block.barrier(me, 7);
  if (is(kUsedBehindRelease)) memory.load(me, first + quarter, kColumns, words);
}

std::string run(Fault with, ThreadOrder order) {
  fault = with;
  Block block({sum_up, 32, kThreads, 64}, nullptr, {});
  for (int i = 0; i < 2; ++i) {
    if (auto done = block.run({{0, 0, 0}, {1, 1, 1}}, order); !done) return done.error().message;
  }
  return "";
}

TEST(EmulatedTensorMemory, FindsWhatCodeMayNotDo) {
  const std::pair<Fault, const char*> faults[] = {
      {kNoAllocation, "nobody has allocated it"},
      {kOtherLanes, "in another warp's lanes"},
      {kNoWait, "has not waited for the product that writes it"},
      {kNoStore, "adds to what nobody has written"},
      {kNoFenceBefore, "no fence in front of the barrier"},
      {kNoFenceBehind, "no fence behind the barrier"},
      {kNoWaitBeforeStore, "has not waited for the product that writes it"},
      {kNoRelease, "tensor memory is not released"},
      {kUsedBehindRelease, "nobody has allocated it"},
  };
  for (ThreadOrder order : {ThreadOrder::kForward, ThreadOrder::kReverse, ThreadOrder::kRandom}) {
    EXPECT_EQ(run(kNone, order), "");
    for (const auto& [with, message] : faults) EXPECT_THAT(run(with, order), testing::HasSubstr(message));
    EXPECT_NE(run(kNoBarrier, order), "");
  }
}

}  // namespace
}  // namespace kiln::test
