#include "process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "kiln/wire/fd.h"

namespace kiln::server {

// proc(5): the second field, the program's name, is in brackets and may have any characters.
std::optional<ProcessState> process_state(pid_t pid) {
  const wire::UniqueFd file(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file ? ::read(file.get(), text, sizeof text) : -1;
  if (size <= 0) return std::nullopt;
  const std::string all(text, static_cast<size_t>(size));
  const size_t name_ends = all.rfind(')');
  if (name_ends == std::string::npos) return std::nullopt;
  std::istringstream fields(all.substr(name_ends + 1));
  constexpr int kState = 3, kThreads = 20, kStarted = 22;
  ProcessState out;
  std::string field, state;
  for (int number = kState; number <= kStarted && fields >> field; ++number) {
    if (number == kState) state = field;
    if (number == kThreads) out.threads = std::strtoull(field.c_str(), nullptr, 10);
    if (number == kStarted) out.started = std::strtoull(field.c_str(), nullptr, 10);
  }
  // The first thread may have ended before the others.
  out.stopped = state == "T";
  out.ended = state == "X" || (state == "Z" && out.threads <= 1);
  return out;
}

}  // namespace kiln::server
