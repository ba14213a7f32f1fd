#include "sequence.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kiln/client/runtime.h"
#include "kiln/dsl/float_mode.h"
#include "parallel.h"
#include "shares.h"

namespace kiln::client {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Threads meet here again and again; the last one does something before any goes on.
class Barrier {
 public:
  template <class Last>
  void wait(int threads, const Last& last) {
    const int phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
      arrived_.store(0, std::memory_order_relaxed);
      last();
      phase_.store(phase + 1, std::memory_order_release);
      phase_.notify_all();
      return;
    }
    for (int i = 0; i < kSpins; ++i) {
      if (phase_.load(std::memory_order_acquire) != phase) return;
      relax();
    }
    phase_.wait(phase, std::memory_order_acquire);
  }

 private:
  static constexpr int kSpins = 2000;  // tens of microseconds: longer than most steps of a plan

  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> phase_{0};
};

class Team {
 public:
  explicit Team(const Sequence& sequence) : sequence_(sequence) {}

  SequenceEnd run() {
    const auto& steps = sequence_.steps;
    const bool is_shared =
        sequence_.threads > 1 && std::ranges::any_of(steps, [](const SequenceStep& step) { return step.is_wide; });
    if (!is_shared) {
      run_part(0, 1);
      return end_;
    }
    shares_ = std::vector<Share>(2 * static_cast<size_t>(sequence_.threads));
    in_parallel(sequence_.threads, [this](int mine, int parts) { run_part(mine, parts); });
    return end_;
  }

 private:
  // What is said of the end by the thread that comes first. Others see it behind the next barrier.
  void end_at(size_t step, int32_t code, const kiln_failure& failure) {
    if (is_over_.exchange(true, std::memory_order_acq_rel)) return;
    end_ = {code, code == 0, static_cast<uint32_t>(step), failure};
  }
  bool is_over() const { return is_over_.load(std::memory_order_relaxed); }

  void run_part(int mine, int parts) {
    ThreadMemory scratch(ThreadMemory::Use::kScratch);
    const dsl::FloatMode mode;  // the thread's may be any
    kiln_ctx context{};
    context.size = sizeof context;
    context.workspace = sequence_.workspace;
    bool was_wide = false;
    size_t wide = 0;
    for (size_t i = 0; i < sequence_.steps.size(); ++i) {
      const SequenceStep& step = sequence_.steps[i];
      const bool is_wide = step.is_wide && parts > 1;
      // Two sets in turns: who fills one has met all others since they last took of it.
      const std::span<Share> shares = std::span(shares_).subspan(
          is_wide && wide % 2 == 1 ? static_cast<size_t>(parts) : 0, is_wide ? static_cast<size_t>(parts) : 0);
      if (is_wide) {
        shares[static_cast<size_t>(mine)].begin(step.programs, static_cast<uint64_t>(mine), shares.size());
        ++wide;
      }
      if (parts > 1 && (is_wide || was_wide)) {
        // One thread looks, so that all leave at the same place.
        barrier_.wait(parts, [&] {
          if (!is_over() && sequence_.cancel.stop_requested()) end_at(i, 0, {});
          all_leave_ = is_over();
        });
        if (all_leave_) return;
      }
      was_wide = is_wide;
      if (is_wide) {
        take_all(shares, static_cast<size_t>(mine), [&](const Range& range) {
          if (is_over()) return false;
          call(i, range, scratch, context);
          return true;
        });
      } else if (mine == 0 && !is_over()) {
        if (sequence_.cancel.stop_requested()) {
          end_at(i, 0, {});
        } else {
          call(i, {0, step.programs}, scratch, context);
        }
      }
    }
  }

  void call(size_t number, const Range& range, ThreadMemory& scratch, kiln_ctx& context) {
    const SequenceStep& step = sequence_.steps[number];
    if (step.scratch_bytes > 0) {
      context.scratch = scratch.get(step.scratch_bytes);
      if (context.scratch == nullptr) return end_at(number, kNoScratchMemory, {});
    }
    context.scratch_bytes = step.scratch_bytes;
    const int32_t code =
        step.entry(sequence_.blocks + step.params, step.grid.data(), range.first, range.last, &context);
    if (code != 0) end_at(number, code, context.failure);
  }

  const Sequence& sequence_;
  std::vector<Share> shares_;
  Barrier barrier_;
  std::atomic<bool> is_over_{false};
  bool all_leave_ = false;  // written between the barrier's two sides
  SequenceEnd end_;
};

}  // namespace

SequenceEnd run_sequence(const Sequence& sequence) { return Team(sequence).run(); }

}  // namespace kiln::client
