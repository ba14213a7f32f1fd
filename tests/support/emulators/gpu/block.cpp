#include "block.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>

namespace kiln::test {
namespace {

constexpr size_t kSharedAlignment = 1024;

std::byte* allocate_shared(size_t bytes) {
  const size_t rounded = (bytes / kSharedAlignment + 1) * kSharedAlignment;
  return static_cast<std::byte*>(std::aligned_alloc(kSharedAlignment, rounded));
}

}  // namespace

int Thread::lane() const { return number % block->code().lanes; }

Block::Block(const EmulatedCode& code, const std::byte* params, std::vector<GlobalBuffer> buffers)
    : code_(code),
      params_(params),
      buffers_(std::move(buffers)),
      threads_(static_cast<size_t>(code.threads)),
      waiting_(threads_.size()),
      ready_((threads_.size() + 63) / 64),
      meetings_(threads_.size() / static_cast<size_t>(code.lanes) + 1),
      shared_(allocate_shared(code.shared_bytes), std::free),
      shared_races_(code.shared_bytes),
      epochs_(static_cast<size_t>(code.programs)) {
  for (const GlobalBuffer& buffer : buffers_) buffer_races_.emplace_back(buffer.bytes);
  for (size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].block = this;
    threads_[i].number = static_cast<int>(i);
    threads_[i].fiber = std::make_unique<Fiber>(run_thread, &threads_[i]);
  }
}

// One program after another, for as long as the block asks for it.
void Block::run_thread(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Block& block = *thread.block;
  for (;;) {
    block.code_.entry(block.params_, &thread, block.shared_.get());
    block.wait(thread, Waiting::State::kEnded, 0);
  }
}

Result<void> Block::run(const Program& program, ThreadOrder order) {
  program_ = program;
  begin_epochs();
  std::memset(shared_.get(), 0xff, code_.shared_bytes);  // NaN: nothing may rely on what was there
  for (size_t i = 0; i < threads_.size(); ++i) {
    make_ready(i);
    waiting_[i].arrived = 0;
  }
  std::ranges::fill(meetings_, Meeting());
  while (Thread* thread = next_ready(order)) {
    thread->fiber->resume();
    if (!error_.empty()) return internal_error(error_);
    const Waiting& now = waiting(*thread);
    if (now.state == Waiting::State::kAtBarrier || now.arrived > 0) open_barrier();
  }
  const bool ended = std::ranges::all_of(waiting_, [](const Waiting& t) { return t.state == Waiting::State::kEnded; });
  if (!ended) return internal_error("threads wait for ever: " + describe_waiting());
  const std::string unfinished = bulk_.finish() + tensor_.finish();
  return unfinished.empty() ? Result<void>() : internal_error(unfinished);
}

// Forward the first that is ready, in reverse the last, at random the first from some thread on.
Thread* Block::next_ready(ThreadOrder order) {
  const size_t words = ready_.size();
  const size_t start = order == ThreadOrder::kRandom ? random_() % threads_.size() : 0;
  for (size_t i = 0; i <= words; ++i) {  // the word of `start` is looked at twice: from it on, and up to it
    const size_t word = order == ThreadOrder::kReverse ? (2 * words - 1 - i) % words : (start / 64 + i) % words;
    const uint64_t bits = i == 0 ? ready_[word] & ~uint64_t{0} << start % 64 : ready_[word];
    if (bits == 0) continue;
    const int bit = order == ThreadOrder::kReverse ? 63 - std::countl_zero(bits) : std::countr_zero(bits);
    return &threads_[64 * word + static_cast<size_t>(bit)];
  }
  return nullptr;
}

void Block::make_ready(size_t thread) {
  waiting_[thread].state = Waiting::State::kReady;
  ready_[thread / 64] |= uint64_t{1} << thread % 64;
}

void Block::wait(Thread& thread, Waiting::State state, int site) {
  const auto number = static_cast<size_t>(thread.number);
  waiting_[number].state = state;
  waiting_[number].site = site;
  ready_[number / 64] &= ~(uint64_t{1} << number % 64);
  thread.fiber->suspend();
}

bool Block::meet_warp(Thread& thread, int site) {
  Meeting& meeting = meetings_[static_cast<size_t>(thread.number / code_.lanes)];
  if (meeting.lanes > 0 && meeting.site != site) fail(thread, "the lanes of a warp are at different instructions");
  if (meeting.lanes == code_.lanes - 1) return true;
  ++meeting.lanes;
  meeting.site = site;
  wait(thread, Waiting::State::kAtWarp, site);
  return false;
}

void Block::release_warp(Thread& thread) {
  const int first = thread.number - thread.lane();
  for (int lane = 0; lane < code_.lanes; ++lane) make_ready(static_cast<size_t>(first + lane));
  meetings_[static_cast<size_t>(thread.number / code_.lanes)].lanes = 0;
}

void Block::barrier(Thread& thread, int site, int first, int threads) {
  waiting(thread).first = first;
  waiting(thread).among = threads;
  wait(thread, Waiting::State::kAtBarrier, site);
}

void Block::warp_barrier(Thread& thread, int site) {
  if (!meet_warp(thread, site)) return;
  epoch(thread) = ++last_epoch_;
  release_warp(thread);
}

void Block::begin_epochs() {
  for (uint64_t& epoch : epochs_) epoch = ++last_epoch_;
}

// A barrier lets threads go when all are there.
void Block::open_barrier() {
  for (size_t begin = 0; begin < waiting_.size(); ++begin) {
    const Waiting first = waiting_[begin];
    if (first.state != Waiting::State::kAtBarrier || first.first != static_cast<int>(begin)) continue;
    const auto there = std::span(waiting_).subspan(begin, static_cast<size_t>(first.among));
    const bool is_of_all = first.among == code_.threads;
    const auto has_gone_on = [&](const Waiting& thread) { return is_of_all && thread.arrived > 0; };
    const bool open = std::ranges::all_of(there, [&](const Waiting& thread) {
      const bool waits = thread.state == Waiting::State::kAtBarrier && thread.site == first.site &&
                         thread.first == first.first && thread.among == first.among;
      return waits || has_gone_on(thread);
    });
    if (!open) continue;
    begin_epochs();
    for (size_t i = begin; i < begin + there.size(); ++i) {
      if (has_gone_on(waiting_[i])) {
        --waiting_[i].arrived;
      } else {
        make_ready(i);
      }
    }
  }
}

void Block::wake_from_transactions() {
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].state == Waiting::State::kAtTransaction) make_ready(i);
  }
}

std::string Block::describe_waiting() const {
  static constexpr const char* kWhere[] = {"is ready", "waits for its warp", "waits at a barrier",
                                           "waits for a bulk copy", "has ended"};
  std::string out;
  const Waiting* before = nullptr;
  for (const Thread& each : threads_) {
    const Waiting& thread = waiting_[static_cast<size_t>(each.number)];
    if (before && before->state == thread.state && before->site == thread.site) continue;
    out += (before ? ", thread " : "thread ") + std::to_string(each.number) + " " +
           kWhere[static_cast<size_t>(thread.state)] + " (place " + std::to_string(thread.site) + ")";
    before = &thread;
  }
  return out;
}

void Block::check_global(Thread& thread, const void* pointer, size_t bytes, const char* what) {
  const auto* first = static_cast<const std::byte*>(pointer);
  const auto place = std::to_string(bytes) + " bytes";
  if (reinterpret_cast<uintptr_t>(pointer) % bytes != 0)
    fail(thread, std::string(what) + " of " + place + ": unaligned");
  const GlobalBuffer* nearest = nullptr;
  for (const GlobalBuffer& buffer : buffers_) {
    if (first >= buffer.data && first + bytes <= buffer.data + buffer.bytes) return;
    const auto distance = [&](const GlobalBuffer& b) { return std::abs(first - b.data); };
    if (!nearest || distance(buffer) < distance(*nearest)) nearest = &buffer;
  }
  fail(thread, std::string(what) + " of " + place + " outside all buffers, " +
                   (nearest ? std::to_string(first - nearest->data) + " bytes from the start of `" + nearest->name +
                                  "`, which has " + std::to_string(nearest->bytes)
                            : "of which there are none"));
}

void Block::check_global_order(Thread& thread, const void* pointer, size_t bytes, bool writes) {
  const auto* first = static_cast<const std::byte*>(pointer);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (first < buffers_[i].data || first >= buffers_[i].data + buffers_[i].bytes) continue;
    const auto at = static_cast<size_t>(first - buffers_[i].data);
    const bool race = writes ? buffer_races_[i].write(at, bytes, thread.number, epoch(thread), first)
                             : buffer_races_[i].read(at, bytes, thread.number, epoch(thread));
    if (race) {
      fail(thread, std::string(writes ? "store to" : "load from") + " byte " + std::to_string(at) + " of `" +
                       buffers_[i].name + "`: no barrier since another thread's access");
    }
  }
}

void Block::check_shared(Thread& thread, const void* pointer, size_t bytes, bool writes) {
  const auto* first = static_cast<const std::byte*>(pointer);
  const ptrdiff_t offset = first - shared_.get();
  const auto refuse = [&](const std::string& why) {
    fail(thread, std::string(writes ? "write" : "read") + " of shared memory, " + std::to_string(bytes) + " bytes at " +
                     std::to_string(offset) + ": " + why);
  };
  if (offset < 0 || static_cast<size_t>(offset) + bytes > code_.shared_bytes) {
    refuse("outside the block's " + std::to_string(code_.shared_bytes));
  }
  if (reinterpret_cast<uintptr_t>(pointer) % bytes != 0) refuse("unaligned");
  const auto at = static_cast<size_t>(offset);
  const bool race = writes ? shared_races_.write(at, bytes, thread.number, epoch(thread), first)
                           : shared_races_.read(at, bytes, thread.number, epoch(thread));
  if (race) refuse("no barrier since another thread's access");
}

void Block::fail(Thread& thread, const std::string& what) {
  error_ = "thread " + std::to_string(thread.number) + " of program (" + std::to_string(program_.id[0]) + ", " +
           std::to_string(program_.id[1]) + ", " + std::to_string(program_.id[2]) + "): " + what;
  thread.fiber->suspend();
  std::abort();  // nobody resumes a thread after an error
}

}  // namespace kiln::test
