// A block of threads of the emulated GPU. Each thread is a fiber that runs until it has to wait: for the lanes of its
// warp, or for all threads at a barrier. In which order threads run is for the caller to choose; what is right is so in
// every order.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bulk_copies.h"
#include "fiber.h"
#include "kiln/dsl/result.h"
#include "races.h"
#include "tensor_memory.h"

namespace kiln::test {

class Block;

// What a launch reads and writes.
struct GlobalBuffer {
  std::string name;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

struct Program {
  std::array<uint32_t, 3> id{}, count{};
};

// The compiled kernel: parameters in slots of 8 bytes, the thread, the block's shared memory.
using EmulatedEntry = void (*)(const std::byte* params, void* thread, std::byte* shared);

struct EmulatedCode {
  EmulatedEntry entry = nullptr;
  int lanes = 32, threads = 128;
  size_t shared_bytes = 0;
  int programs = 1;  // of a block
};

enum class ThreadOrder : uint8_t { kForward, kReverse, kRandom };

// A copy into shared memory that is under way; zeros where it comes from nowhere.
struct AsyncCopy {
  std::byte* shared;
  const std::byte* from;
  size_t bytes;
};

// What generated code calls takes one of these.
struct Thread {
  // Operands and results that are no single word. First: generated code finds it at the thread's address.
  alignas(16) std::array<std::byte, 2048> operands{};

  Block* block = nullptr;
  int number = 0;
  // What it offers to the other lanes, the lane it asks, and what that one offered.
  uint32_t word = 0, from = 0, fetched = 0;
  // The row of a matrix that it names.
  std::byte* row = nullptr;
  std::vector<AsyncCopy> copies;  // since the last commit
  std::vector<std::vector<AsyncCopy>> copy_groups;
  std::unique_ptr<Fiber> fiber;

  int lane() const;
};

// What a thread waits for. Beside the threads, which are large: the next one to run is sought each time that one waits.
struct Waiting {
  enum class State : uint8_t { kReady, kAtWarp, kAtBarrier, kAtTransaction, kEnded };
  State state = State::kEnded;
  int site = 0;              // where it waits: the number of the call in the kernel
  int first = 0, among = 0;  // of a barrier: the first of its threads, and how many they are
  int arrived = 0;           // how many barriers of all threads it has arrived at without waiting for the others
};

class Block {
 public:
  Block(const EmulatedCode& code, const std::byte* params, std::vector<GlobalBuffer> buffers);

  // An error of the kernel: what no thread may do, or what would hang.
  Result<void> run(const Program& program, ThreadOrder order);

  const Program& program() const { return program_; }
  const EmulatedCode& code() const { return code_; }
  // The lanes of a thread's warp.
  Thread* warp_of(const Thread& thread) { return &threads_[static_cast<size_t>(thread.number - thread.lane())]; }

  // ---- for what generated code calls; `thread` is the one that runs ----
  // True where all lanes of the warp are here, for the last of them: it has to `release_warp` when it has computed what
  // all want. The others return false when it has.
  bool meet_warp(Thread& thread, int site);
  void release_warp(Thread& thread);
  void barrier(Thread& thread, int site) { barrier(thread, site, 0, code_.threads); }
  // Of so many threads from the first one on.
  void barrier(Thread& thread, int site, int first, int threads);
  // At the next barrier of all threads.
  void arrive_at_barrier(Thread& thread) { ++waiting(thread).arrived; }
  // For programs of one warp each.
  void warp_barrier(Thread& thread, int site);
  // Until something has happened to transaction barriers.
  void wait_for_transaction(Thread& thread, int site) { wait(thread, Waiting::State::kAtTransaction, site); }
  void wake_from_transactions();
  BulkCopies& bulk() { return bulk_; }
  EmulatedTensorMemory& tensor() { return tensor_; }
  // A number that grows with each barrier that the thread's program passes.
  uint64_t epoch_of(const Thread& thread) { return epoch(thread); }
  // Whether a global access is inside a buffer and aligned; else an error, and no return.
  void check_global(Thread& thread, const void* pointer, size_t bytes, const char* what);
  // Whether barriers order an access that check_global lets through; of a write when its bytes are there.
  void check_global_order(Thread& thread, const void* pointer, size_t bytes, bool writes);
  void check_shared(Thread& thread, const void* pointer, size_t bytes, bool writes);
  [[noreturn]] void fail(Thread& thread, const std::string& what);

 private:
  static void run_thread(void* thread);
  Waiting& waiting(const Thread& thread) { return waiting_[static_cast<size_t>(thread.number)]; }
  void wait(Thread& thread, Waiting::State state, int site);
  void make_ready(size_t thread);
  Thread* next_ready(ThreadOrder order);
  void open_barrier();
  std::string describe_waiting() const;

  const EmulatedCode code_;
  const std::byte* params_;
  std::vector<GlobalBuffer> buffers_;
  std::vector<Races> buffer_races_;
  std::vector<Thread> threads_;
  std::vector<Waiting> waiting_;  // by thread
  std::vector<uint64_t> ready_;   // a bit of each thread: it is ready
  // By warp: how many of its lanes wait for the others, all of them at this place.
  struct Meeting {
    int lanes = 0, site = 0;
  };
  std::vector<Meeting> meetings_;
  std::unique_ptr<std::byte[], void (*)(void*)> shared_;
  Races shared_races_;
  BulkCopies bulk_{*this};
  EmulatedTensorMemory tensor_{*this};
  // Of a thread's program: a number that no other time between two barriers of any program has.
  uint64_t& epoch(const Thread& thread) { return epochs_[static_cast<size_t>(thread.number / program_threads())]; }
  int program_threads() const { return code_.threads / code_.programs; }
  void begin_epochs();

  std::vector<uint64_t> epochs_;  // by program
  uint64_t last_epoch_ = 0;
  Program program_;
  std::string error_;
  std::minstd_rand random_{1};
};

}  // namespace kiln::test
