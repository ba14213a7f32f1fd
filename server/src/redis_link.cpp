#include "redis_link.h"

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include "remote_value.h"

namespace kiln::server {
namespace {

std::string text_of(int number) { return std::generic_category().message(number); }

using ReplyPtr = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;
using ReaderPtr = std::unique_ptr<redisReader, decltype(&redisReaderFree)>;

// Arrays are no answer to anything that is asked here, and one may name more elements than there is memory.
bool is_single(std::byte first) { return std::strchr("+-:$", static_cast<char>(first)) && first != std::byte{0}; }

}  // namespace

std::string_view to_string(RemoteFailure failure) {
  switch (failure) {
    case RemoteFailure::kConnect:
      return "connect";
    case RemoteFailure::kTimeout:
      return "timeout";
    case RemoteFailure::kClosed:
      return "closed";
    case RemoteFailure::kProtocol:
      return "protocol";
    case RemoteFailure::kServer:
      break;
  }
  return "server";
}

struct RedisLink::Answer {
  ReplyPtr reply{nullptr, &freeReplyObject};
  bool is(int type) const { return reply->type == type; }
  std::string text() const { return {reply->str, reply->len}; }
};

RedisLink::RedisLink(RemoteAddress address, const RemoteOptions& options)
    : address_(std::move(address)), options_(options) {}

RemoteReply RedisLink::failed(Failed failure) {
  // After an error reply the connection is sound; otherwise an answer may come late, and be taken for another's.
  if (failure.kind != RemoteFailure::kServer) socket_.reset();
  return {failure.kind, std::move(failure.detail), std::nullopt};
}

RemoteReply RedisLink::get(std::string_view name) {
  if (auto failure = ensure_connected()) return failed(std::move(*failure));
  Answer answer;
  if (auto failure = command({"GET", name}, answer)) return failed(std::move(*failure));
  if (answer.is(REDIS_REPLY_NIL)) return {};
  if (!answer.is(REDIS_REPLY_STRING)) return failed({RemoteFailure::kProtocol, "GET: neither a value nor nil"});
  auto bytes = std::as_bytes(std::span(answer.reply->str, answer.reply->len));
  return {std::nullopt, {}, Bytes(bytes.begin(), bytes.end())};
}

RemoteReply RedisLink::set(std::string_view name, std::span<const std::byte> value) {
  if (auto failure = ensure_connected()) return failed(std::move(*failure));
  Answer answer;
  std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  if (auto failure = command({"SET", name, text}, answer)) return failed(std::move(*failure));
  if (!answer.is(REDIS_REPLY_STATUS)) return failed({RemoteFailure::kProtocol, "SET: not a status"});
  return {};
}

std::optional<RedisLink::Failed> RedisLink::ensure_connected() {
  if (socket_) {
    // Servers close connections that rest, and nothing may be there that nobody asked for.
    char byte;
    if (::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    socket_.reset();
  }
  if (auto failure = connect()) return failure;
  auto failure = introduce();
  if (failure) socket_.reset();
  return failure;
}

std::optional<RedisLink::Failed> RedisLink::connect() {
  const auto deadline = Clock::now() + options_.connect_timeout;
  if (!address_.socket.empty()) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    address_.socket.copy(name.sun_path, sizeof name.sun_path - 1);
    return connect_to(AF_UNIX, &name, sizeof name, deadline);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(address_.port);
  if (int status = ::getaddrinfo(address_.host.c_str(), port.c_str(), &hints, &list); status != 0) {
    return Failed{RemoteFailure::kConnect, address_.host + ": " + ::gai_strerror(status)};
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  Failed last{RemoteFailure::kConnect, address_.host + ": no address"};
  for (const addrinfo* each = list; each; each = each->ai_next) {
    auto failure = connect_to(each->ai_family, each->ai_addr, each->ai_addrlen, deadline);
    if (!failure) return {};
    last = std::move(*failure);
  }
  return last;
}

std::optional<RedisLink::Failed> RedisLink::connect_to(int family, const void* address, size_t size,
                                                       Clock::time_point deadline) {
  socket_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto refuse = [this](int number) {
    socket_.reset();
    return Failed{RemoteFailure::kConnect, text_of(number)};
  };
  if (!socket_) return refuse(errno);
  const int on = 1;
  if (family != AF_UNIX) ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket_.get(), static_cast<const sockaddr*>(address), static_cast<socklen_t>(size)) == 0) return {};
  if (errno != EINPROGRESS) return refuse(errno);
  if (wait(POLLOUT, deadline)) return refuse(ETIMEDOUT);
  int status = 0;
  socklen_t length = sizeof status;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &status, &length);
  if (status != 0) return refuse(status);
  return {};
}

std::optional<RedisLink::Failed> RedisLink::introduce() {
  Answer answer;
  if (!options_.password.empty()) {
    auto failure = address_.user.empty() ? command({"AUTH", options_.password}, answer)
                                         : command({"AUTH", address_.user, options_.password}, answer);
    if (failure) return failure;
  }
  if (address_.database == 0) return {};
  return command({"SELECT", std::to_string(address_.database)}, answer);
}

std::optional<RedisLink::Failed> RedisLink::command(std::initializer_list<std::string_view> words, Answer& answer) {
  const auto deadline = Clock::now() + options_.timeout;
  std::vector<const char*> starts;
  std::vector<size_t> sizes;
  for (std::string_view word : words) {
    starts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* text = nullptr;
  const int size = redisFormatCommandArgv(&text, static_cast<int>(words.size()), starts.data(), sizes.data());
  if (size < 0) return Failed{RemoteFailure::kProtocol, "no memory for the command"};
  std::unique_ptr<char, decltype(&redisFreeCommand)> owner(text, &redisFreeCommand);
  if (auto failure = send({text, static_cast<size_t>(size)}, deadline)) return failure;
  if (auto failure = receive(answer, deadline)) return failure;
  if (answer.is(REDIS_REPLY_ERROR)) return Failed{RemoteFailure::kServer, answer.text()};
  return {};
}

std::optional<RedisLink::Failed> RedisLink::send(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return Failed{RemoteFailure::kClosed, text_of(errno)};
    if (auto failure = wait(POLLOUT, deadline)) return failure;
  }
  return {};
}

std::optional<RedisLink::Failed> RedisLink::receive(Answer& answer, Clock::time_point deadline) {
  ReaderPtr reader(redisReaderCreate(), &redisReaderFree);
  if (!reader) return Failed{RemoteFailure::kProtocol, "no memory for the reply"};
  std::vector<std::byte> chunk(64u << 10);
  size_t total = 0;
  while (!answer.reply || reader->len > reader->pos) {
    if (answer.reply) return Failed{RemoteFailure::kProtocol, "more than one reply"};
    if (auto failure = wait(POLLIN, deadline)) return failure;
    const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return Failed{RemoteFailure::kClosed, text_of(errno)};
    if (count == 0) return Failed{RemoteFailure::kClosed, total == 0 ? "no reply" : "half a reply"};
    if (total == 0 && !is_single(chunk[0])) return Failed{RemoteFailure::kProtocol, "not a reply of Redis"};
    total += static_cast<size_t>(count);
    if (total > kMaxRemoteValue) return Failed{RemoteFailure::kProtocol, "the reply is too long"};
    void* parsed = nullptr;
    if (redisReaderFeed(reader.get(), reinterpret_cast<const char*>(chunk.data()), static_cast<size_t>(count)) !=
            REDIS_OK ||
        redisReaderGetReply(reader.get(), &parsed) != REDIS_OK) {
      return Failed{RemoteFailure::kProtocol, reader->errstr};
    }
    answer.reply.reset(static_cast<redisReply*>(parsed));
  }
  return {};
}

std::optional<RedisLink::Failed> RedisLink::wait(short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Failed{RemoteFailure::kTimeout, "no answer in time"};
    pollfd watched{socket_.get(), events, 0};
    const int count = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return Failed{RemoteFailure::kClosed, text_of(errno)};
  }
}

}  // namespace kiln::server
