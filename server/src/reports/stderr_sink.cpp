// Whoever has given this process its standard error may have it too, and waits there if he likes. So O_NONBLOCK is not
// set on it: a pipe or a terminal is opened once more, and a socket is asked each time.
#include "reports/stderr_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace kiln::server {
namespace {

constexpr size_t kUsualRest = 16 << 10;  // of a long line; where memory is short there is room for it already

}  // namespace

StderrSink::StderrSink(Lines lines) : lines_(lines) {
  rest_.reserve(kUsualRest);
  struct stat about{};
  if (::fstat(STDERR_FILENO, &about) != 0) return;
  is_socket_ = S_ISSOCK(about.st_mode);
  if (!S_ISFIFO(about.st_mode) && !S_ISCHR(about.st_mode)) return;
  own_.reset(::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// EAGAIN: there is no room. What cannot be opened once more has some where poll says so, for so few bytes, as long as
// nobody else writes there just then; a file always has.
ssize_t StderrSink::write_some(std::string_view text) {
  if (is_socket_) return ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (own_) return ::write(own_.get(), text.data(), text.size());
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) > 0) return ::write(STDERR_FILENO, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
  errno = EAGAIN;
  return -1;
}

// False: nothing of it was written. One that has begun is ended before the next begins.
bool StderrSink::write_line(std::string_view line) {
  const size_t size = line.size();
  while (!line.empty()) {
    const ssize_t count = write_some(line);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return true;  // nobody is there any more
    if (count <= 0) break;
    line.remove_prefix(static_cast<size_t>(count));
  }
  if (line.size() == size) return false;
  rest_.assign(line);
  return true;
}

bool StderrSink::write_rest() {
  if (rest_.empty()) return true;
  const ssize_t count = write_some(rest_);
  if (count < 0 && errno != EAGAIN && errno != EINTR) rest_.clear();
  if (count > 0) rest_.erase(0, static_cast<size_t>(count));
  return rest_.empty();
}

bool StderrSink::say_dropped(const spdlog::details::log_msg& message) {
  std::string words = "\"event\":\"log_lines_dropped\",\"lines\":" + std::to_string(dropped_);
  if (lines_ == Lines::kWhole) words = "{" + words + "}";
  spdlog::details::log_msg about = message;
  about.level = spdlog::level::warn;
  about.payload = words;
  spdlog::memory_buf_t line;
  formatter_->format(about, line);
  return write_line({line.data(), line.size()});
}

void StderrSink::sink_it_(const spdlog::details::log_msg& message) {
  if (!write_rest() || (dropped_ > 0 && !say_dropped(message))) {
    ++dropped_;
    return;
  }
  dropped_ = 0;
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  if (!rest_.empty() || !write_line({line.data(), line.size()})) ++dropped_;
}

}  // namespace kiln::server
