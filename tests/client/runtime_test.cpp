// Loading shared objects from memory and running grids on threads.
#include "kiln/client/runtime.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "kiln/client/host_memory.h"

namespace kiln::client {
namespace {

std::vector<std::byte> fake_kernel() {
  std::ifstream file(FAKE_KERNEL, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << FAKE_KERNEL;
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

std::shared_ptr<const Module> load(const std::string& entry = "kiln_entry") {
  auto module = Module::load(fake_kernel(), entry);
  EXPECT_TRUE(module.ok()) << module.error().message;
  return module ? *module : nullptr;
}

struct Params {
  float* y;
  int32_t fail_at = -1;
  float scale = 0.5f;
  uint64_t scratch_bytes = 0;
};

TEST(Module, EveryLoadIsItsOwn) {
  // Descriptor numbers repeat; the modules must not.
  std::vector<std::shared_ptr<const Module>> modules;
  const uint32_t grid[3] = {1, 1, 1};
  for (int i = 0; i < 20; ++i) {
    modules.push_back(load("other_entry"));
    ASSERT_NE(modules.back(), nullptr);
    EXPECT_EQ(modules.back()->entry()(nullptr, grid, 0, 1, nullptr), 1);
  }
  EXPECT_EQ(modules[0]->entry()(nullptr, grid, 0, 1, nullptr), 2);
}

TEST(Module, HasSeveralEntries) {
  auto module = load();
  EXPECT_NE(module->find("other_entry"), nullptr);
  EXPECT_EQ(module->find("no_such_entry"), nullptr);
}

TEST(Module, BadBytesAndMissingSymbolsAreErrors) {
  auto garbage = Module::load(std::as_bytes(std::span("not an ELF file")), "kiln_entry");
  ASSERT_FALSE(garbage.ok());
  EXPECT_NE(garbage.error().message.find("cannot load the compiled kernel"), std::string::npos);
  auto missing = Module::load(fake_kernel(), "no_such_entry");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("no symbol `no_such_entry`"), std::string::npos);
}

// Every program runs exactly once, whatever the grid and the threads.
class Grids : public testing::TestWithParam<std::tuple<std::array<uint32_t, 3>, int>> {};

TEST_P(Grids, EveryProgramRunsOnce) {
  const auto [grid, threads] = GetParam();
  auto module = load();
  std::vector<float> y(uint64_t{grid[0]} * grid[1] * grid[2], 1);
  const Params params{y.data(), -1, 0.5f, 100};
  CpuLaunch launch{module->entry(), &params, grid, 100, threads};
  EXPECT_EQ(run_programs(launch), 0);
  EXPECT_EQ(y, std::vector<float>(y.size(), 2.5f));
}

INSTANTIATE_TEST_SUITE_P(
    All, Grids,
    testing::Combine(testing::Values(std::array<uint32_t, 3>{1, 1, 1}, std::array<uint32_t, 3>{7, 1, 1},
                                     std::array<uint32_t, 3>{5, 3, 2}, std::array<uint32_t, 3>{10007, 1, 1}),
                     testing::Values(0, 1, 2, 3, 8)));

TEST(RunPrograms, ReturnsTheErrorOfACall) {
  auto module = load();
  std::vector<float> y(1000);
  for (int threads : {1, 4}) {
    const Params params{y.data(), 517};
    CpuLaunch launch{module->entry(), &params, {1000, 1, 1}, 0, threads};
    EXPECT_EQ(run_programs(launch), 7);
  }
}

TEST(RunPrograms, NoScratchMemoryIsItsOwnCode) {
  auto module = load();
  std::vector<float> y(1);
  const Params params{y.data()};
  CpuLaunch launch{module->entry(), &params, {1, 1, 1}, uint64_t{1} << 62, 1};
  EXPECT_EQ(run_programs(launch), kNoScratchMemory);
}

// What the callback of a launch collects without a lock of its own: calls come one at a time.
struct Printed {
  std::vector<std::vector<uint32_t>> by_program;
  int inside = 0;
};

void collect(void* data, uint32_t print, uint64_t program, const void* const* values) {
  Printed& out = *static_cast<Printed*>(data);
  EXPECT_EQ(++out.inside, 1);
  EXPECT_EQ(*static_cast<const float*>(values[0]), static_cast<float>(program));
  out.by_program[program].push_back(print);
  --out.inside;
}

TEST(RunPrograms, PrintsOneAtATimeAndInOrderWithinAProgram) {
  auto module = load("reporting_entry");
  for (int threads : {1, 4}) {
    const Params params{};
    Printed printed{std::vector<std::vector<uint32_t>>(500), 0};
    std::vector<int32_t> workspace(500);
    CpuLaunch launch{module->entry(), &params, {500, 1, 1}, 0, threads};
    launch.print = collect;
    launch.print_data = &printed;
    launch.workspace = workspace.data();
    EXPECT_EQ(run_programs(launch), 0);
    EXPECT_EQ(printed.by_program, std::vector<std::vector<uint32_t>>(500, {0, 1}));
    EXPECT_EQ(workspace, std::vector<int32_t>(500, 1));
  }
}

TEST(RunPrograms, TheFailureRecordIsThatOfTheCallThatFailed) {
  auto module = load("reporting_entry");
  const int64_t extents[] = {42};
  for (int threads : {1, 4}) {
    const Params params{nullptr, 321};
    CpuLaunch launch{module->entry(), &params, {500, 1, 1}, 0, threads};
    launch.extents = extents;
    kiln_failure failure{};
    EXPECT_EQ(run_programs(launch, &failure), KILN_OUT_OF_BOUNDS);
    EXPECT_EQ(failure.check, 3u);
    EXPECT_EQ(failure.program, 321u);
    EXPECT_EQ(failure.index, 42);
  }
}

TEST(ThreadMemory, IsKeptForTheNextAndNotSharedWithOneFurtherUp) {
  void* first = nullptr;
  {
    ThreadMemory outer(ThreadMemory::Use::kScratch);
    first = outer.get(1000);
    ThreadMemory inner(ThreadMemory::Use::kScratch);
    EXPECT_NE(inner.get(1000), first);
    ThreadMemory other(ThreadMemory::Use::kWorkspace);
    EXPECT_NE(other.get(1000), first);
  }
  ThreadMemory again(ThreadMemory::Use::kScratch);
  EXPECT_EQ(again.get(500), first);
  EXPECT_EQ(again.get(uint64_t{1} << 62), nullptr);
}

TEST(RunPrograms, InsideAParallelRegionOneThreadRuns) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the fork of this test's own parallel region looks like a race: libgomp is not instrumented";
#endif
  auto module = load();
  std::vector<std::vector<float>> y(2, std::vector<float>(1000));
#pragma omp parallel num_threads(2)
  {
    const Params params{y[static_cast<size_t>(omp_get_thread_num())].data()};
    CpuLaunch launch{module->entry(), &params, {1000, 1, 1}, 0, 0};
    EXPECT_EQ(run_programs(launch), 0);
  }
  EXPECT_EQ(y[0], std::vector<float>(1000, 1.5f));
}

// What the programs of a launch, `meet` or `wait_for_the_rest`, tell each other.
struct Meeting {
  std::atomic<int> arrived = 0;  // threads that run a program, programs that ended
  int expected = 0;
  std::array<std::atomic<bool>, 4> began = {};  // by thread
  std::vector<int> thread_of = {};              // by program
};

// Waits until `expected` have arrived, for 30 s at most.
bool all_arrive(Meeting& meeting) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (meeting.arrived < meeting.expected) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// The first program of each thread waits for those of the others, so that none is done before all have begun.
int32_t meet(const void* params, const uint32_t*, uint64_t first, uint64_t last, kiln_ctx*) {
  Meeting& meeting = **static_cast<Meeting* const*>(params);
  const int mine = omp_get_thread_num();
  for (uint64_t i = first; i < last; ++i) meeting.thread_of[i] = mine;
  if (!meeting.began[static_cast<size_t>(mine)].exchange(true)) ++meeting.arrived;
  return all_arrive(meeting) ? 0 : 1;
}

TEST(RunPrograms, EachThreadBeginsWithItsOwnShare) {
  for (const uint32_t programs : {4u, 40u, 400u}) {
    Meeting meeting;
    meeting.expected = 4;
    meeting.thread_of.assign(programs, -1);
    const Meeting* params = &meeting;
    CpuLaunch launch{meet, &params, {programs, 1, 1}, 0, 4};
    ASSERT_EQ(run_programs(launch), 0);
    for (int thread = 0; thread < 4; ++thread) {
      EXPECT_EQ(meeting.thread_of[programs / 4 * static_cast<uint32_t>(thread)], thread) << programs << " programs";
    }
  }
}

// The first program waits for all those that are not called together with it.
int32_t wait_for_the_rest(const void* params, const uint32_t* grid, uint64_t first, uint64_t last, kiln_ctx*) {
  Meeting& meeting = **static_cast<Meeting* const*>(params);
  if (first > 0) {
    meeting.arrived += static_cast<int>(last - first);
    return 0;
  }
  meeting.expected = static_cast<int>(grid[0] - last);
  return all_arrive(meeting) ? 0 : 1;
}

TEST(RunPrograms, ThreadsThatAreDoneHelpTheOthers) {
  Meeting meeting;
  const Meeting* params = &meeting;
  CpuLaunch launch{wait_for_the_rest, &params, {64, 1, 1}, 0, 2};
  EXPECT_EQ(run_programs(launch), 0);
}

TEST(HostMemory, IsAlignedZeroAndAllThere) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, uint64_t{5} << 20}) {
    for (const int threads : {0, 1, 3}) {
      auto memory = HostMemory::allocate(bytes, threads);
      ASSERT_TRUE(memory.ok()) << memory.error().message;
      EXPECT_EQ(memory->size(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
      const auto all = memory->as<uint8_t>();
      EXPECT_EQ(all.size(), bytes);
      EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](uint8_t byte) { return byte == 0; }));
      std::fill(all.begin(), all.end(), uint8_t{1});
    }
  }
  EXPECT_EQ((HostMemory::allocate(7)->as<float>().size()), 1u);
}

TEST(HostMemory, MovesAndIsGoneWithItsOwner) {
  auto first = HostMemory::allocate(100);
  std::byte* place = first->data();
  HostMemory second = std::move(*first);
  EXPECT_EQ(second.data(), place);
  EXPECT_EQ(first->data(), nullptr);
}

// All pages are there before anybody writes to the array: what is resident is asked of the system.
TEST(HostMemory, IsTouchedByThen) {
  const uint64_t bytes = uint64_t{3} << 20;
  auto memory = HostMemory::allocate(bytes, 2);
  std::vector<unsigned char> resident(bytes / static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
  ASSERT_EQ(::mincore(memory->data(), bytes, resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; }));
}

TEST(HostMemory, TooMuchIsAnError) {
  auto memory = HostMemory::allocate(uint64_t{1} << 60);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(memory.error().message, "no memory for an array of 1152921504606846976 bytes");
}

TEST(RunPrograms, ManyThreadsMayLaunchAtOnce) {
  auto module = load();
  std::vector<std::vector<float>> y(8, std::vector<float>(500));
  std::vector<std::thread> threads;
  for (auto& buffer : y) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const Params params{buffer.data(), -1, 0, 64};
        CpuLaunch launch{module->entry(), &params, {500, 1, 1}, 64, 2};
        EXPECT_EQ(run_programs(launch), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& buffer : y) EXPECT_EQ(buffer, std::vector<float>(500, 20));
}

}  // namespace
}  // namespace kiln::client
