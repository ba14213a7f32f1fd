// A thread of the emulated GPU as a fiber of the host: a stack of its own, that runs until it suspends itself.
#pragma once

#include <cstddef>
#include <memory>

namespace kiln::test {

class Fiber {
 public:
  using Body = void (*)(void* argument);

  // `body` never returns: where it has nothing left to do it suspends.
  Fiber(Body body, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends.
  void resume();
  // From inside the body.
  void suspend();

 private:
  struct Switch;
  static void enter(unsigned high, unsigned low);

  Body body_;
  void* argument_;
  std::byte* stack_;
  std::unique_ptr<Switch> switch_;
};

}  // namespace kiln::test
