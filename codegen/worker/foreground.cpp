// `kiln-worker --compile REQUEST CODE`: one compile without daemon or limits, so that a debugger or a sanitizer can
// look at it. `kiln reproduce` calls it, also with what killed workers, so that it has their sandbox; but for a
// sanitizer's report, which opens files.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "kiln/wire/fd.h"
#include "kiln/wire/messages.h"
#include "kiln/wire/printable.h"
#include "zygote.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Says what phase has begun, and what the one before took.
class PhaseLog {
 public:
  void begin(std::string_view phase) {
    end();
    std::fprintf(stderr, "%-12.*s", static_cast<int>(phase.size()), phase.data());
    since_ = Clock::now();
  }
  void end() {
    if (!since_) return;
    std::fprintf(stderr, "%8.1f ms\n", std::chrono::duration<double, std::milli>(Clock::now() - *since_).count());
    since_.reset();
  }

 private:
  std::optional<Clock::time_point> since_;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-worker: %s\n", wire::printable_lines(message).c_str());
  return 1;
}

// A file that was opened before the compile, which may fail, and has what it had until now.
bool replace(int file, std::span<const std::byte> bytes) {
  if (::ftruncate(file, 0) != 0 && errno != EINVAL) return false;  // EINVAL: a device or a pipe, which has no length
  while (!bytes.empty()) {
    const ssize_t size = ::write(file, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(size));
  }
  return true;
}

}  // namespace

int compile_main(const Compiler& compiler, const char* request_path, const char* code_path) {
  std::ifstream in(request_path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!in) return fail(std::string(request_path) + ": cannot be read");
  auto body = wire::split_compile_body(std::as_bytes(std::span(text)));
  if (!body) return fail(std::string(request_path) + ": " + body.error().message);
  const wire::UniqueFd out(::open(code_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!out) return fail(std::string(code_path) + ": cannot be written");
  compiler.warm_up({});
  const bool sanitized = !memory_can_be_limited();
  if (sanitized) {
    compiler.start_helpers({});
  } else if (auto confined = give_up_rights(compiler.start_helpers); !confined) {
    return fail(confined.error().message);
  }
  PhaseLog log;
  auto artifact = compiler.compile(body->canonical, body->debug, [&](std::string_view phase) { log.begin(phase); });
  log.end();
  if (!artifact) return fail(artifact.error().message);
  return replace(out.get(), artifact->code) ? 0 : fail(std::string(code_path) + ": cannot be written");
}

}  // namespace kiln::worker
