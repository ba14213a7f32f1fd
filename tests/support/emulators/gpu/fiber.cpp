// Stacks are made by makecontext; afterwards _longjmp switches, since swapcontext asks the system for the signal mask
// each time. Sanitizers are told of each switch; that of threads knows swapcontext alone.
#undef _FORTIFY_SOURCE  // its longjmp takes another stack for a mistake

#include "fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csetjmp>
#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace kiln::test {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__)
const auto leave_for = __sanitizer_start_switch_fiber;
const auto arrive_at = __sanitizer_finish_switch_fiber;
#elif !defined(__SANITIZE_THREAD__)
void leave_for(void** /*frames*/, const void* /*stack*/, size_t /*bytes*/) {}
void arrive_at(void* /*frames*/, const void** /*old_stack*/, size_t* /*old_bytes*/) {}
#endif

}  // namespace

// `begin` jumps onto the stack that `inside` has been made for, `in` jumps back onto it, `out` leaves it; who is there
// for the first time calls `arrived`.
#if defined(__SANITIZE_THREAD__)
struct Fiber::Switch {
  ucontext_t inside, outside;
  void *inner = __tsan_create_fiber(0), *outer = nullptr;

  ~Switch() { __tsan_destroy_fiber(inner); }
  void in(const void*) {
    outer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(inner, 0);
    swapcontext(&outside, &inside);
  }
  void begin(const void* stack) { in(stack); }
  void arrived() {}
  void out() {
    __tsan_switch_to_fiber(outer, 0);
    swapcontext(&inside, &outside);
  }
};
#else
struct Fiber::Switch {
  ucontext_t inside;
  jmp_buf in_again, out_again;
  void *inside_frames = nullptr, *outside_frames = nullptr;
  const void* outer_stack = nullptr;
  size_t outer_bytes = 0;

  void begin(const void* stack) {
    leave_for(&outside_frames, stack, kStackBytes);
    if (_setjmp(out_again) == 0) setcontext(&inside);
    arrive_at(outside_frames, nullptr, nullptr);
  }
  void in(const void* stack) {
    leave_for(&outside_frames, stack, kStackBytes);
    if (_setjmp(out_again) == 0) _longjmp(in_again, 1);
    arrive_at(outside_frames, nullptr, nullptr);
  }
  void arrived() { arrive_at(inside_frames, &outer_stack, &outer_bytes); }
  void out() {
    leave_for(&inside_frames, outer_stack, outer_bytes);
    if (_setjmp(in_again) == 0) _longjmp(out_again, 1);
    arrived();
  }
};
#endif

Fiber::Fiber(Body body, void* argument) : body_(body), argument_(argument) {
  // The system gives pages when they are touched. The lowest one may not be: an overflow is a crash, not luck.
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  stack_ = static_cast<std::byte*>(memory);
  mprotect(stack_, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

void Fiber::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low);
  self->switch_->arrived();
  self->body_(self->argument_);
  std::abort();
}

void Fiber::resume() {
  if (switch_) return switch_->in(stack_);
  switch_ = std::make_unique<Switch>();
  ucontext_t& inside = switch_->inside;
  getcontext(&inside);
  inside.uc_stack.ss_sp = stack_;
  inside.uc_stack.ss_size = kStackBytes;
  inside.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  switch_->begin(stack_);
}

void Fiber::suspend() { switch_->out(); }

}  // namespace kiln::test
