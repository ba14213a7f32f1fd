// A program that is profiled: profile_program SCENARIO. It launches three times, says that it has, waits for a line,
// and launches twice more.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "kiln/client/client.h"
#include "kiln/client/profile.h"

namespace {

namespace lang = kiln::dsl::lang;

auto one() {
  return lang::kernel("one", {"x"}, [](lang::Ptr<lang::i32> x) {
    lang::grid(1);
    lang::store(x, 1);
  });
}

void say(const char* text) { std::fputs(text, stderr); }

// The child of a fork() has no profile, and SIGUSR2 ends it as it ends others.
void fork_a_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    std::raise(SIGUSR2);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  say(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2 ? "the child ended by the signal\n"
                                                         : "the child did not end by the signal\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view scenario = argc > 1 ? argv[1] : "";
  if (scenario == "has_a_handler") {
    std::signal(SIGUSR2, [](int) { (void)!::write(STDERR_FILENO, "its own handler\n", 16); });
  }
  kiln::Client client;
  auto fn = client.get(one(), {.target = "interp"});
  if (!fn) return 1;
  int32_t x = 0;
  const auto launch = [&](int times) {
    for (int i = 0; i < times; ++i) {
      if (!fn->launch({}, &x)) std::exit(1);
    }
  };
  std::optional<kiln::profile::Scope> part;
  if (scenario == "has_a_scope") part.emplace("part");
  launch(3);
  if (scenario == "forks") fork_a_child();
  if (scenario == "has_stopped") (void)kiln::profile::stop();
  say("ready\n");
  // In short waits: the thread sanitizer holds signals back until a call ends, if it is none that sleeps.
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (::poll(&input, 1, 0) <= 0) ::usleep(1000);
  launch(2);
  return 0;
}
