#include "kiln/redis/link.h"

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

namespace kiln::redis {
namespace {

std::string text_of(int number) { return std::generic_category().message(number); }

using ReplyPtr = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;
using ReaderPtr = std::unique_ptr<redisReader, decltype(&redisReaderFree)>;

bool is_single(std::byte first) { return std::strchr("+-:$", static_cast<char>(first)) && first != std::byte{0}; }

// A list may name more elements than there is memory. The type of the count differs between versions of hiredis.
const redisReplyObjectFunctions& reply_functions() {
  static const redisReplyObjectFunctions functions = [] {
    ReaderPtr reader(redisReaderCreate(), &redisReaderFree);
    return reader ? *reader->fn : redisReplyObjectFunctions{};
  }();
  return functions;
}

template <class Count>
void* create_list(const redisReadTask* task, Count count) {
  return static_cast<size_t>(count) > Link::kMaxItems ? nullptr : reply_functions().createArray(task, count);
}

redisReplyObjectFunctions bounded_functions() {
  redisReplyObjectFunctions out = reply_functions();
  out.createArray = create_list;
  return out;
}

Reply to_reply(const redisReply& from) {
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      return {.kind = Reply::Kind::kInteger, .integer = from.integer};
    case REDIS_REPLY_ARRAY: {
      Reply out{.kind = Reply::Kind::kList};
      for (size_t i = 0; i < from.elements; ++i) out.items.push_back(to_reply(*from.element[i]));
      return out;
    }
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
      return {.kind = Reply::Kind::kText, .text = std::string(from.str, from.len)};
    default:
      return {};
  }
}

}  // namespace

std::string_view to_string(Failure failure) {
  switch (failure) {
    case Failure::kConnect:
      return "connect";
    case Failure::kTimeout:
      return "timeout";
    case Failure::kClosed:
      return "closed";
    case Failure::kProtocol:
      return "protocol";
    case Failure::kServer:
      break;
  }
  return "server";
}

struct Link::Parsed {
  ReplyPtr reply{nullptr, &freeReplyObject};
  bool is(int type) const { return reply->type == type; }
  std::string text() const { return {reply->str, reply->len}; }
};

Link::Link(Address address, const Access& access) : address_(std::move(address)), access_(access) {}

template <class Out>
Out Link::failed(Failed failure) {
  // After an error reply the connection is sound; otherwise an answer may come late, and be taken for another's.
  if (failure.kind != Failure::kServer) socket_.reset();
  return {failure.kind, std::move(failure.detail), {}};
}

ValueReply Link::get(std::string_view name) {
  if (auto failure = ensure_connected()) return failed<ValueReply>(std::move(*failure));
  Parsed answer;
  if (auto failure = command(std::array{std::string_view("GET"), name}, Shape::kSingle, answer))
    return failed<ValueReply>(std::move(*failure));
  if (answer.is(REDIS_REPLY_NIL)) return {};
  if (!answer.is(REDIS_REPLY_STRING)) return failed<ValueReply>({Failure::kProtocol, "GET: neither a value nor nil"});
  auto bytes = std::as_bytes(std::span(answer.reply->str, answer.reply->len));
  return {std::nullopt, {}, std::vector<std::byte>(bytes.begin(), bytes.end())};
}

ValueReply Link::set(std::string_view name, std::span<const std::byte> value) {
  if (auto failure = ensure_connected()) return failed<ValueReply>(std::move(*failure));
  Parsed answer;
  std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  if (auto failure = command(std::array{std::string_view("SET"), name, text}, Shape::kSingle, answer))
    return failed<ValueReply>(std::move(*failure));
  if (!answer.is(REDIS_REPLY_STATUS)) return failed<ValueReply>({Failure::kProtocol, "SET: not a status"});
  return {};
}

Answer Link::ask(std::span<const std::string> words) {
  if (auto failure = ensure_connected()) return failed<Answer>(std::move(*failure));
  Parsed answer;
  const std::vector<std::string_view> views(words.begin(), words.end());
  if (auto failure = command(views, Shape::kAny, answer)) return failed<Answer>(std::move(*failure));
  return {std::nullopt, {}, to_reply(*answer.reply)};
}

std::optional<Link::Failed> Link::ensure_connected() {
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

std::optional<Link::Failed> Link::connect() {
  const auto deadline = Clock::now() + access_.connect_timeout;
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
    return Failed{Failure::kConnect, address_.host + ": " + ::gai_strerror(status)};
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  Failed last{Failure::kConnect, address_.host + ": no address"};
  for (const addrinfo* each = list; each; each = each->ai_next) {
    auto failure = connect_to(each->ai_family, each->ai_addr, each->ai_addrlen, deadline);
    if (!failure) return {};
    last = std::move(*failure);
  }
  return last;
}

std::optional<Link::Failed> Link::connect_to(int family, const void* address, size_t size, Clock::time_point deadline) {
  socket_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto refuse = [this](int number) {
    socket_.reset();
    return Failed{Failure::kConnect, text_of(number)};
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

std::optional<Link::Failed> Link::introduce() {
  Parsed answer;
  if (!access_.password.empty()) {
    std::vector<std::string_view> words = {"AUTH"};
    if (!address_.user.empty()) words.push_back(address_.user);
    words.push_back(access_.password);
    if (auto failure = command(words, Shape::kSingle, answer)) return failure;
  }
  if (address_.database == 0) return {};
  const std::string database = std::to_string(address_.database);
  return command(std::array{std::string_view("SELECT"), std::string_view(database)}, Shape::kSingle, answer);
}

std::optional<Link::Failed> Link::command(Words words, Shape shape, Parsed& answer) {
  const auto deadline = Clock::now() + access_.timeout;
  std::vector<const char*> starts;
  std::vector<size_t> sizes;
  for (std::string_view word : words) {
    starts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* text = nullptr;
  const int size = redisFormatCommandArgv(&text, static_cast<int>(words.size()), starts.data(), sizes.data());
  if (size < 0) return Failed{Failure::kProtocol, "no memory for the command"};
  std::unique_ptr<char, decltype(&redisFreeCommand)> owner(text, &redisFreeCommand);
  if (auto failure = send({text, static_cast<size_t>(size)}, deadline)) return failure;
  if (auto failure = receive(shape, answer, deadline)) return failure;
  if (answer.is(REDIS_REPLY_ERROR)) return Failed{Failure::kServer, answer.text()};
  return {};
}

std::optional<Link::Failed> Link::send(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return Failed{Failure::kClosed, text_of(errno)};
    if (auto failure = wait(POLLOUT, deadline)) return failure;
  }
  return {};
}

std::optional<Link::Failed> Link::receive(Shape shape, Parsed& answer, Clock::time_point deadline) {
  redisReplyObjectFunctions functions = bounded_functions();  // outlives the reader
  ReaderPtr reader(redisReaderCreate(), &redisReaderFree);
  if (!reader) return Failed{Failure::kProtocol, "no memory for the reply"};
  reader->fn = &functions;
  std::vector<std::byte> chunk(64u << 10);
  size_t total = 0;
  while (!answer.reply || reader->len > reader->pos) {
    if (answer.reply) return Failed{Failure::kProtocol, "more than one reply"};
    if (auto failure = wait(POLLIN, deadline)) return failure;
    const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return Failed{Failure::kClosed, text_of(errno)};
    if (count == 0) return Failed{Failure::kClosed, total == 0 ? "no reply" : "half a reply"};
    if (total == 0 && shape == Shape::kSingle && !is_single(chunk[0]))
      return Failed{Failure::kProtocol, "not a reply of Redis"};
    total += static_cast<size_t>(count);
    if (total > kMaxReply) return Failed{Failure::kProtocol, "the reply is too long"};
    void* parsed = nullptr;
    if (redisReaderFeed(reader.get(), reinterpret_cast<const char*>(chunk.data()), static_cast<size_t>(count)) !=
            REDIS_OK ||
        redisReaderGetReply(reader.get(), &parsed) != REDIS_OK) {
      return Failed{Failure::kProtocol, reader->errstr};
    }
    answer.reply.reset(static_cast<redisReply*>(parsed));
  }
  return {};
}

std::optional<Link::Failed> Link::wait(short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Failed{Failure::kTimeout, "no answer in time"};
    pollfd watched{socket_.get(), events, 0};
    const int count = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return Failed{Failure::kClosed, text_of(errno)};
  }
}

}  // namespace kiln::redis
