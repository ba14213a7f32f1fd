#include "processes/worker_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>

#include "connections/watched.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/json.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxLine = 8 << 10;  // what is longer is cut into lines
constexpr size_t kAtStart = 64 << 10, kOfAJob = 16 << 10, kAtMost = 1 << 20;
constexpr std::chrono::milliseconds kPause{100};  // from those that say too much

}  // namespace

WorkerWords::WorkerWords(asio::io_context& io, const std::string& file, Log& log)
    : io_(io), rest_(io), ours_(io), lines_(file), log_(log), allowance_(kAtStart) {}

Result<void> WorkerWords::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return wire::errno_error(ErrorCode::kInternal, "pipe", errno);
  theirs_.reset(ends[1]);
  auto ours = watched(io_, wire::UniqueFd(ends[0]));
  if (!ours) return ours.error();
  ours_ = std::move(*ours);
  listen();
  return {};
}

void WorkerWords::job_begins() {
  allowance_ = std::min(allowance_ + kOfAJob, kAtMost);
  if (dropped_ == 0) return;
  log_.warn("worker_words_dropped", {{"bytes", dropped_}});
  dropped_ = 0;
}

void WorkerWords::listen() {
  ours_.async_read_some(asio::buffer(buffer_), [this](const boost::system::error_code& failed, size_t size) {
    if (failed) return;
    const bool too_much = dropped_ != 0;
    take({buffer_, size});
    if (!too_much) return listen();
    rest_.expires_after(kPause);
    rest_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) listen();
    });
  });
}

void WorkerWords::hear() {
  if (!ours_.is_open()) return;
  char buffer[kMaxLine];
  for (size_t total = 0; dropped_ == 0 && total < kAtStart;) {
    const ssize_t size = ::read(ours_.native_handle(), buffer, sizeof buffer);
    if (size <= 0) return;
    take({buffer, static_cast<size_t>(size)});
    total += static_cast<size_t>(size);
  }
}

void WorkerWords::stop() {
  if (!ours_.is_open()) return;
  rest_.cancel();
  hear();
  if (!partial_.empty()) line(std::exchange(partial_, {}));
  boost::system::error_code ignored;
  ours_.close(ignored);
  theirs_.reset();
}

void WorkerWords::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n'), room = kMaxLine - partial_.size();
    const size_t count = std::min({end, bytes.size(), room});
    partial_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    const bool ended = !bytes.empty() && bytes.front() == '\n';
    if (ended) bytes.remove_prefix(1);
    if (ended || partial_.size() == kMaxLine) line(std::exchange(partial_, {}));
  }
}

void WorkerWords::line(const std::string& text) {
  if (text.empty()) return;
  if (text.size() > allowance_) {
    dropped_ += text.size();
    return;
  }
  allowance_ -= text.size();
  const bool printable = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  auto object = wire::parse_object(text);
  if (printable && object && object->contains("event")) return lines_.write(text);
  log_.warn("worker_said", {{"text", text}});
}

}  // namespace kiln::server
