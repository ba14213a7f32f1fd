// One thread polls the listener and its connections.
#include "fake_redis.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <optional>

namespace kiln::service_test {
namespace {

// "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n": the words, taken from the front of `input`; nothing while it is not all there.
std::optional<std::vector<std::string>> take_command(std::string& input) {
  size_t at = 0;
  auto number = [&]() -> std::optional<size_t> {
    size_t end = input.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    size_t out = std::stoull(input.substr(at + 1, end - at - 1));
    at = end + 2;
    return out;
  };
  std::vector<std::string> words;
  auto count = number();
  if (!count) return std::nullopt;
  while (words.size() < *count) {
    auto size = number();
    if (!size || input.size() < at + *size + 2) return std::nullopt;
    words.push_back(input.substr(at, *size));
    at += *size + 2;
  }
  input.erase(0, at);
  return words;
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

FakeRedis::FakeRedis(const std::string& path, Manners manners)
    : path_(path),
      manners_(manners),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path_.copy(name.sun_path, sizeof name.sun_path - 1);
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(::listen(listener_.get(), 64), 0);
  thread_ = std::thread([this] { run(); });
}

FakeRedis::~FakeRedis() {
  uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
  ::unlink(path_.c_str());
}

void FakeRedis::edit(const std::function<void(std::map<std::string, std::string>&)>& change) {
  std::lock_guard lock(mutex_);
  change(values_);
}

void FakeRedis::run() {
  std::vector<Peer> peers;
  while (true) {
    std::vector<pollfd> watched = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& peer : peers) watched.push_back({peer.fd.get(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents) return;
    for (size_t i = peers.size(); i-- > 0;) {
      if (watched[i + 2].revents && !serve(peers[i])) peers.erase(peers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!watched[1].revents) continue;
    wire::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) continue;
    ++connections_;
    peers.push_back({std::move(fd), {}});
  }
}

// False when the connection is to end.
bool FakeRedis::serve(Peer& peer) {
  if (manners_ == Manners::kReset) return false;
  char chunk[65536];
  ssize_t count = ::recv(peer.fd.get(), chunk, sizeof chunk, 0);
  if (count <= 0) return false;
  peer.input.append(chunk, static_cast<size_t>(count));
  while (auto words = take_command(peer.input)) {
    ++commands_;
    if (!answer(peer, *words)) return false;
  }
  return true;
}

bool FakeRedis::answer(const Peer& peer, const std::vector<std::string>& words) {
  const int fd = peer.fd.get();
  switch (manners_) {
    case Manners::kHang:
    case Manners::kReset:
      return true;
    case Manners::kHalf:
      send_all(fd, "$1000\r\nhalf of it");
      return false;
    case Manners::kHalfHang:
      return send_all(fd, "$1000\r\nhalf of it");
    case Manners::kNil:
      return send_all(fd, "$-1\r\n");
    case Manners::kRefuse:
      return send_all(fd, "-LOADING not now\r\n");
    case Manners::kArray:
      return send_all(fd, "*2147483647\r\n");
    case Manners::kGarbage:
      return send_all(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    case Manners::kTwice:
      return send_all(fd, right_answer(words) + right_answer(words));
    case Manners::kServe:
      break;
  }
  return send_all(fd, right_answer(words));
}

std::string FakeRedis::right_answer(const std::vector<std::string>& words) {
  std::lock_guard lock(mutex_);
  if (words.size() == 3 && words[0] == "SET") {
    values_[words[1]] = words[2];
    return "+OK\r\n";
  }
  if (words.size() != 2 || words[0] != "GET") return "-ERR unknown command\r\n";
  auto it = values_.find(words[1]);
  if (it == values_.end()) return "$-1\r\n";
  return "$" + std::to_string(it->second.size()) + "\r\n" + it->second + "\r\n";
}

}  // namespace kiln::service_test
