// The edge of libkiln.so from inside: what is thrown becomes a status, and options of other versions are read as far as
// they go.
#include <pthread.h>

#include <stdexcept>

#include "check.h"
#include "errors.h"

namespace kiln::c {
namespace {

void keeps_exceptions_in() {
  CHECK(guarded([]() -> Result<void> { return {}; }) == KILN_OK);
  CHECK_FAILS(guarded([]() -> Result<void> { throw std::bad_alloc(); }), KILN_OUT_OF_MEMORY, "there is no memory");
  CHECK_FAILS(guarded([]() -> Result<void> { throw std::runtime_error("a reason"); }), KILN_INTERNAL, "a reason");
  CHECK_FAILS(guarded([]() -> Result<void> { throw 3; }), KILN_INTERNAL, "an unknown exception");
  // The value of a Result that has none is a mistake of ours, and no end of the process.
  CHECK(guarded([]() -> Result<void> {
          const Result<int> none = invalid_argument("nothing");
          return *none > 0 ? Result<void>() : internal_error("");
        }) == KILN_INTERNAL);
  CHECK(guarded_value<int>(7, [](int& out) -> Result<void> {
          out = 8;
          return invalid_argument("no");
        }) == 7);
  Error failure = invalid_argument("busy");
  failure.retryable = true;
  failure.retry_after_ms = 20;
  CHECK_FAILS(guarded([&]() -> Result<void> { return failure; }), KILN_INVALID_ARGUMENT, "busy");
  CHECK(kiln_error_is_retryable() == 1 && kiln_error_retry_after_ms() == 20);
  static_assert(KILN_INTERNAL == 1 + static_cast<int>(ErrorCode::kInternal));
}

// A thread that is cancelled leaves its frames by what looks like an exception, and must not be held up.
void lets_cancelled_threads_go() {
  pthread_t thread;
  const auto wait = [](void*) -> void* {
    (void)guarded([]() -> Result<void> {
      for (;;) pthread_testcancel();
    });
    return nullptr;
  };
  void* left = nullptr;
  CHECK(pthread_create(&thread, nullptr, wait, nullptr) == 0 && pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, &left) == 0 && left == PTHREAD_CANCELED);
}

void reads_options_of_other_versions() {
  struct Options {
    size_t size;
    int64_t first, second;
  };
  struct Newer {
    Options known;
    int64_t third;
  };
  const Options all = {sizeof all, 1, 2};
  const auto read = [](const Options* given) { return read_options(given, "options"); };
  CHECK(read(&all)->second == 2 && read(nullptr)->second == 0 && read(nullptr)->size == sizeof all);
  const Options older = {offsetof(Options, second), 1, 2};  // what is behind is not its own
  CHECK(read(&older)->first == 1 && read(&older)->second == 0);
  const Newer empty = {{sizeof(Newer), 1, 2}, 0}, newer = {{sizeof(Newer), 1, 2}, 3};
  CHECK(read(&empty.known)->second == 2);
  CHECK(read(&newer.known).error().code == ErrorCode::kVersionMismatch);
  const Options none = {0, 1, 2}, huge = {size_t{1} << 40, 1, 2};
  CHECK(!read(&none) && !read(&huge));
}

}  // namespace
}  // namespace kiln::c

int main() {
  kiln::c::keeps_exceptions_in();
  kiln::c::lets_cancelled_threads_go();
  kiln::c::reads_options_of_other_versions();
  return failures > 0;
}
