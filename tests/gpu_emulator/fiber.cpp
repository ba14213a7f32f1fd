// Stacks are made by makecontext; afterwards _longjmp switches, since swapcontext asks the system for the signal mask
// each time.
#undef _FORTIFY_SOURCE  // its longjmp takes another stack for a mistake

#include "fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace kiln::test {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;

}  // namespace

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
  self->body_(self->argument_);
  std::abort();
}

void Fiber::resume() {
  if (_setjmp(outside_) != 0) return;
  if (started_) _longjmp(inside_, 1);
  started_ = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack_;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  setcontext(&context);
}

void Fiber::suspend() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

}  // namespace kiln::test
