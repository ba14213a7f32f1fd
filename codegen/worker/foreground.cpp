// `kiln-worker --compile REQUEST CODE`: one compile without daemon, limits or sandbox, so that a debugger or a
// sanitizer can look at it. `kiln reproduce` calls it.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

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

}  // namespace

int compile_main(const Compiler& compiler, const char* request_path, const char* code_path) {
  std::ifstream in(request_path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!in) return fail(std::string(request_path) + ": cannot be read");
  auto body = wire::split_compile_body(std::as_bytes(std::span(text)));
  if (!body) return fail(std::string(request_path) + ": " + body.error().message);
  compiler.warm_up({});
  compiler.start_helpers({});
  PhaseLog log;
  auto artifact = compiler.compile(body->canonical, body->debug, [&](std::string_view phase) { log.begin(phase); });
  log.end();
  if (!artifact) return fail(artifact.error().message);
  std::ofstream out(code_path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(artifact->code.data()), static_cast<std::streamsize>(artifact->code.size()));
  out.close();
  return out ? 0 : fail(std::string(code_path) + ": cannot be written");
}

}  // namespace kiln::worker
