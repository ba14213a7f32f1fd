#include "connections/close_elsewhere.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kiln/wire/crash_report.h"

namespace kiln::server {
namespace {

constexpr size_t kMostThreads = 16;  // so many that linger hold up nobody's close

struct Closing {
  std::mutex mutex;
  std::deque<wire::UniqueFd> waiting;
  size_t threads = 0;
};

// Never destroyed: a thread may still be at it while the process ends.
Closing& closing() {
  static Closing& one = *new Closing;
  return one;
}

void close_what_waits() {
  Closing& all = closing();
  std::unique_lock lock(all.mutex);
  while (!all.waiting.empty()) {
    wire::UniqueFd next = std::move(all.waiting.front());
    all.waiting.pop_front();
    lock.unlock();
    next.reset();
    lock.lock();
  }
  --all.threads;
}

}  // namespace

void close_elsewhere(std::deque<wire::UniqueFd> descriptors) noexcept try {
  Closing& all = closing();
  const std::lock_guard lock(all.mutex);
  for (wire::UniqueFd& each : descriptors) all.waiting.push_back(std::move(each));
  if (all.threads == kMostThreads) return;
  std::thread(wire::reporting(close_what_waits)).detach();
  ++all.threads;
} catch (const std::exception&) {  // there can be none: they wait for the next call
}

void close_socket(wire::UniqueFd socket) noexcept try {
  if (!socket) return;
  ::shutdown(socket.get(), SHUT_RDWR);  // nobody adds to what is unread, and the peer hears of it now
  int unread = 0;
  if (::ioctl(socket.get(), FIONREAD, &unread) == 0 && unread == 0) return;
  std::deque<wire::UniqueFd> one;
  one.push_back(std::move(socket));
  close_elsewhere(std::move(one));
} catch (const std::exception&) {  // no memory for a list: here and now
}

void close_socket(boost::asio::posix::stream_descriptor& socket) noexcept try {
  if (socket.is_open()) close_socket(wire::UniqueFd(socket.release()));
} catch (const std::exception&) {
}

}  // namespace kiln::server
