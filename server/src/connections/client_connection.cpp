// Frames of one client, each to its handler.
#include "connections/client_connection.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "connections/kept_text.h"
#include "keying.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "let_go.h"

namespace kiln::server {
namespace {

// Before its hello a peer needs no room.
constexpr wire::FrameLimits kHelloLimits{.max_json = 4096, .max_body = 0};

// Only requests to compile or tune are long.
uint64_t longest_body(wire::Type type) {
  const bool has_request = type == wire::Type::kCompile || type == wire::Type::kTune;
  return has_request ? wire::kMaxBodySize : wire::kMaxGetMany * std::tuple_size_v<RequestKey>;
}
constexpr wire::FrameLimits kLimits{.max_body_of = longest_body};

Error traced(Error failure, const std::string& trace_id) {
  failure.trace_id = trace_id;
  return failure;
}

struct NamedFormat {
  std::string_view name;
  WantedReport::Format format;
};
constexpr NamedFormat kFormats[] = {
    {"json", WantedReport::kJson}, {"prometheus", WantedReport::kPrometheus}, {"trace", WantedReport::kTrace}};

Error try_again(const std::string& message) {
  Error out = error(ErrorCode::kResourceExhausted, message);
  out.retryable = true;
  out.retry_after_ms = 50;
  return out;
}

Error no_memory(const std::string& what) { return try_again("the daemon has no memory " + what); }

// Of those that want something done, which is refused where memory is short; null: of the others, which it is better to
// hear then too.
const char* work_name(wire::Type type) {
  switch (type) {
    case wire::Type::kGet:
    case wire::Type::kGetMany:
      return "GET";
    case wire::Type::kCompile:
      return "COMPILE";
    case wire::Type::kTune:
      return "TUNE";
    case wire::Type::kStats:
      return "STATS";
    default:
      return nullptr;
  }
}

std::string stated_trace_id(const std::string& json) {
  auto object = wire::parse_object(json);
  return object ? cut(wire::Fields(*object).text("trace_id"), kMostOfATraceId) : std::string();
}

// False also where it cannot be known: of a process that hides, or is not to be seen from here.
bool shares_process_namespace(int fd) {
  const pid_t process = wire::peer_process(fd);
  const std::string theirs = "/proc/" + std::to_string(process) + "/ns/pid";
  struct stat there{}, here{};
  return process > 0 && ::stat(theirs.c_str(), &there) == 0 && ::stat("/proc/self/ns/pid", &here) == 0 &&
         there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

constexpr size_t kKeySize = std::tuple_size_v<RequestKey>;
// Keys of a GET_MANY that threads look up on disk at once.
constexpr size_t kMostOnDisk = 16;

}  // namespace

struct ClientConnection::Lookups {
  uint64_t id = 0;
  Passage::TimePoint asked;
  Bytes keys;
  size_t left = 0;  // to be answered
  size_t next = 0;

  RequestKey key(size_t index) const {
    RequestKey out;
    std::memcpy(out.data(), keys.data() + index * kKeySize, kKeySize);
    return out;
  }
};

struct ClientConnection::Keyed {
  RequestKey key;
  size_t debug_hash = 0;
  SharedBytes body;
};

struct ClientConnection::Unkeyed {
  uint64_t id = 0;
  SharedBytes body;
  Keying keying;  // of the body
  std::function<void(Keyed)> then;
};

ClientConnection::ClientConnection(Services& services, uint64_t id, asio::posix::stream_descriptor peer,
                                   std::shared_ptr<Bytes> scratch)
    : services_(services),
      id_(id),
      owner_(services.shares.owners.of(peer.native_handle(), id)),
      is_neighbour_(shares_process_namespace(peer.native_handle())),
      socket_(std::make_shared<FrameSocket>(services.io, std::move(peer), std::move(scratch),
                                            FrameSocket::Options{.limits = kHelloLimits,
                                                                 .shares = &services.shares,
                                                                 .owner = owner_.id,
                                                                 .incoming_limit = services.config.incoming_bytes,
                                                                 .outgoing_limit = services.config.outgoing_bytes})),
      hello_timer_(services.io) {}

ClientConnection::~ClientConnection() = default;

void ClientConnection::start() {
  std::weak_ptr<ClientConnection> weak = weak_from_this();
  socket_->start({.frame =
                      [weak](wire::Frame frame) {
                        if (auto self = weak.lock()) self->on_frame(std::move(frame));
                      },
                  .closed =
                      [weak](const CloseReason& reason) {
                        if (auto self = weak.lock()) self->on_closed(reason);
                      },
                  .go_on =
                      [weak] {
                        auto self = weak.lock();
                        return self ? self->go_on() : FrameSocket::Left::kNothing;
                      }});
  await_hello();
  socket_->send({.type = wire::Type::kWelcome, .json = services_.welcome});
}

void ClientConnection::await_hello() {
  const auto timeout = services_.config.hello_timeout;
  const auto due = std::chrono::steady_clock::now() + timeout;
  hello_timer_.expires_at(due);
  hello_timer_.async_wait([weak = weak_from_this(), due, timeout](const boost::system::error_code& failed) {
    auto self = weak.lock();
    if (failed || !self || self->greeted_) return;
    // A daemon that comes late has kept the peer waiting, whose hello may be there unread.
    if (std::chrono::steady_clock::now() - due > timeout / 4) return self->await_hello();
    self->reject("hello_timeout", error(ErrorCode::kDeadlineExceeded, "no hello in time"));
  });
}

// Where memory is short in the midst of a request, the connection ends with it, which leaves nothing half done.
void ClientConnection::on_frame(wire::Frame frame) {
  const uint64_t id = frame.id();
  try {
    if (has_lost_its_process()) return;
    handle(std::move(frame));
  } catch (const std::bad_alloc&) {
    if (!finished_) reject("memory", no_memory("for the request"), id);
  }
}

// Whoever uses it has it of a process that has ended. True: there is no place for it among those.
bool ClientConnection::has_lost_its_process() {
  if (finished_ || owner_.id == Owners::kEnded || !services_.shares.owners.has_ended(owner_)) return false;
  const uint64_t before = std::exchange(owner_, {Owners::kEnded, 0}).id;
  socket_->set_owner(owner_.id);
  if (services_.moved(id_, before)) return finished_;
  ++services_.metrics.rejected["connections"];
  close();
  return true;
}

void ClientConnection::handle(wire::Frame frame) {
  if (!greeted_) return on_hello(frame);
  const char* const work = work_name(frame.type());
  if (work && (frame.refused || services_.shares.memory.is_short())) return refuse_for_memory(frame, work);
  switch (frame.type()) {
    case wire::Type::kGet:
      return on_get(frame);
    case wire::Type::kGetMany:
      return on_get_many(std::move(frame));
    case wire::Type::kCompile:
      return on_compile(std::move(frame));
    case wire::Type::kTune:
      return on_tune(std::move(frame));
    case wire::Type::kCancel:
      services_.tuner.cancel({id_, frame.id()});
      return services_.scheduler.cancel({id_, frame.id()});
    case wire::Type::kStats:
      return on_stats(frame);
    case wire::Type::kPing:
      return socket_->send({.type = wire::Type::kResult, .request_id = frame.id(), .flags = wire::flag::kLast});
    case wire::Type::kClearPoison:
      services_.log.info("poison_cleared", {{"keys", services_.scheduler.clear_poison()}});
      return socket_->send({.type = wire::Type::kResult, .request_id = frame.id(), .flags = wire::flag::kLast});
    case wire::Type::kShutdown:
      return on_shutdown(frame.id());
    default:
      break;
  }
  reject("unknown_type",
         invalid_argument("frame type " + std::to_string(static_cast<int>(frame.header.type)) + " is not known here"));
}

void ClientConnection::refuse_for_memory(const wire::Frame& frame, const char* work) {
  ++services_.metrics.rejected["memory"];
  const uint64_t size = frame.header.body_size;
  const std::string what = size >> 20 > 0 ? " of " + std::to_string(size >> 20) + " MiB" : "";
  refuse(frame.id(), work, trace_id_of(stated_trace_id(frame.json), frame.id()),
         no_memory("for a request" + what + " beside those that are under way"));
}

void ClientConnection::on_hello(const wire::Frame& frame) {
  if (frame.type() != wire::Type::kHello) {
    return reject("no_hello", invalid_argument("the first frame must be a hello"));
  }
  auto hello = wire::parse_hello(frame.json);
  if (!hello) return reject("bad_hello", hello.error());
  if (hello->version < wire::kMinVersion || hello->version > wire::kVersion) {
    return reject("version",
                  error(ErrorCode::kVersionMismatch,
                        "the client speaks protocol " + wire::version_string(hello->version) + ", this daemon " +
                            wire::version_string(wire::kMinVersion) + " to " + wire::version_string(wire::kVersion)));
  }
  greeted_ = true;
  name_ = cut(hello->client_name, kMostOfAClientsName);
  services_.log.debug("client",
                      {{"client", id_}, {"name", name_}, {"build_id", hello->build_id}, {"owner", owner_.id}});
  hello_timer_.cancel();
  socket_->set_limits(kLimits);
  if (!hello->replace) return;
  // Of two installations side by side each would replace the other's for ever.
  if (!services_.outdated()) {
    return reject("replace", error(ErrorCode::kVersionMismatch,
                                   "this daemon is still what its programs are; another installation has its own"));
  }
  // The acknowledgement goes out when the socket's name is free for the successor.
  services_.drain("replaced by " + hello->client_name);
  socket_->send({.type = wire::Type::kResult, .request_id = frame.id(), .flags = wire::flag::kLast});
  close();
}

// Whoever names none gets one.
std::string ClientConnection::trace_id_of(const std::string& stated, uint64_t id) const {
  return stated.empty() ? services_.history.trace_id(id_, id) : stated;
}

// One request id more in flight, unless it is in use or there are too many.
bool ClientConnection::admit(uint64_t id, const char* type, const std::string& trace_id) {
  if (in_flight_.size() >= services_.config.max_in_flight) {
    ++services_.metrics.rejected["in_flight"];
    refuse(id, type, trace_id_of(trace_id, id), try_again("too many requests in flight on this connection"));
    return false;
  }
  if (in_flight_.insert(id).second) return true;
  reject("duplicate_id", invalid_argument("request id " + std::to_string(id) + " is in flight already"));
  return false;
}

void ClientConnection::refuse(uint64_t id, const char* type, const std::string& trace_id, Error failure) {
  const std::string code(to_string(failure.code));
  services_.history.add_at_once(type, {}, trace_id, owner_.id, code);
  services_.log.info("failed", {{"trace_id", trace_id}, {"code", code}, {"message", failure.message}});
  send_error(id, traced(std::move(failure), trace_id));
}

void ClientConnection::remember_lookup(uint64_t id, const RequestKey& key, const char* outcome,
                                       Passage::TimePoint asked) {
  services_.history.add({.key = key,
                         .connection = id_,
                         .request = id,
                         .client = owner_.id,
                         .outcome = outcome,
                         .asked = asked,
                         .ended = std::chrono::steady_clock::now()});
}

void ClientConnection::on_get(const wire::Frame& frame) {
  const auto asked = std::chrono::steady_clock::now();
  RequestKey key;
  if (frame.body.size() != key.size()) {
    return refuse(frame.id(), "GET", trace_id_of({}, frame.id()), invalid_argument("GET: the body is not a key"));
  }
  std::memcpy(key.data(), frame.body.data(), key.size());
  if (SharedBlob blob = services_.store.find_memory(key)) {
    ++services_.metrics.hits_memory;
    services_.scheduler.on_hit(blob);
    send_found(frame.id(), {blob, Tier::kMemory});
    return remember_lookup(frame.id(), key, tier_name(Tier::kMemory), asked);
  }
  if (!admit(frame.id(), "GET")) return;
  services_.store.find_disk(key, [weak = weak_from_this(), id = frame.id(), key, asked](const SharedBlob& blob) {
    auto self = weak.lock();
    if (!self || self->finished_) return;
    const auto begun = std::chrono::steady_clock::now();
    self->in_flight_.erase(id);
    self->remember_lookup(id, key, blob ? tier_name(Tier::kDisk) : "NOT_FOUND", asked);
    ++(blob ? self->services_.metrics.hits_disk : self->services_.metrics.get_misses);
    if (blob) self->services_.scheduler.on_hit(blob);
    blob ? self->send_found(id, {blob, Tier::kDisk}) : self->send_missing(id);
    self->spend_since(begun);
  });
}

// What is done for it when its turn is over counts in the next one.
void ClientConnection::spend_since(std::chrono::steady_clock::time_point begun) {
  const auto now = std::chrono::steady_clock::now();
  services_.shares.turns.spend(owner_.id, now - begun, now);
}

void ClientConnection::on_get_many(wire::Frame frame) {
  const size_t count = frame.body.size() / kKeySize;
  if (count == 0 || count > wire::kMaxGetMany || frame.body.size() % kKeySize != 0) {
    return refuse(frame.id(), "GET", trace_id_of({}, frame.id()),
                  invalid_argument("GET_MANY: the body is not 1 to 256 keys"));
  }
  if (!admit(frame.id(), "GET")) return;
  const auto asked = std::chrono::steady_clock::now();
  lookups_ = std::make_shared<Lookups>(Lookups{frame.id(), asked, std::move(frame.body), count});
}

// What the last request has left to do, a part at a time, so that the turn can end, and the next request of this
// connection comes behind it.
FrameSocket::Left ClientConnection::go_on() { return unkeyed_ ? hash_next() : look_up_next(); }

FrameSocket::Left ClientConnection::hash_next() {
  if (!unkeyed_->keying.step()) return FrameSocket::Left::kMore;
  const auto known = std::exchange(unkeyed_, nullptr);
  try {
    known->then({known->keying.key(), known->keying.debug_hash(), std::move(known->body)});
  } catch (const std::bad_alloc&) {
    if (!finished_) reject("memory", no_memory("for the request"), known->id);
  }
  return FrameSocket::Left::kMore;
}

// `body` is that of the frame, which is taken.
void ClientConnection::find_key(wire::Frame& frame, const wire::CompileBody& body, std::function<void(Keyed)> then) {
  SharedBytes bytes = share(std::move(frame.body));
  unkeyed_ = std::make_unique<Unkeyed>(
      Unkeyed{frame.id(), std::move(bytes), Keying(services_.builder_id, body), std::move(then)});
}

// One key of a GET_MANY at a time.
FrameSocket::Left ClientConnection::look_up_next() {
  if (!lookups_) return FrameSocket::Left::kNothing;
  if (lookups_on_disk_ >= kMostOnDisk) return FrameSocket::Left::kLater;
  const auto many = lookups_;
  const size_t index = many->next++;
  if (many->next * kKeySize == many->keys.size()) lookups_ = nullptr;
  look_up(many, index);
  return FrameSocket::Left::kMore;
}

void ClientConnection::look_up(const std::shared_ptr<Lookups>& many, size_t index) {
  if (SharedBlob blob = services_.store.find_memory(many->key(index))) {
    return answer_lookup(*many, index, blob, Tier::kMemory);
  }
  ++lookups_on_disk_;
  services_.store.find_disk(many->key(index), [weak = weak_from_this(), many, index](const SharedBlob& blob) {
    auto self = weak.lock();
    if (!self || self->finished_) return;
    const auto begun = std::chrono::steady_clock::now();
    --self->lookups_on_disk_;
    self->answer_lookup(*many, index, blob, Tier::kDisk);
    self->socket_->resume();
    self->spend_since(begun);
  });
}

void ClientConnection::answer_lookup(Lookups& many, size_t index, const SharedBlob& blob, Tier tier) {
  const uint32_t flags = --many.left == 0 ? wire::flag::kLast : 0;
  if (flags) in_flight_.erase(many.id);
  remember_lookup(many.id, many.key(index), blob ? tier_name(tier) : "NOT_FOUND", many.asked);
  Metrics& metrics = services_.metrics;
  ++(!blob ? metrics.get_misses : tier == Tier::kMemory ? metrics.hits_memory : metrics.hits_disk);
  if (!blob) return send_missing(many.id, std::to_string(index), flags);
  services_.scheduler.on_hit(blob);
  send_found(many.id, {blob, tier}, std::to_string(index), flags);
}

void ClientConnection::on_compile(wire::Frame frame) {
  auto header = wire::parse_compile_header(frame.json);
  if (!header) return reject("json", traced(header.error(), trace_id_of({}, frame.id())), frame.id());
  const std::string trace_id = trace_id_of(header->trace_id, frame.id());
  auto body = wire::split_compile_body(frame.body);
  if (!body) return refuse(frame.id(), "COMPILE", trace_id, body.error());
  if (!admit(frame.id(), "COMPILE", trace_id)) return;
  CompileJob request;
  request.waiter = {id_, frame.id()};
  request.owner = owner_.id;
  request.priority = header->priority;
  request.deadline =
      header->deadline_ms ? std::chrono::milliseconds(header->deadline_ms) : services_.config.default_deadline;
  request.trace_id = trace_id;
  request.client_name = name_;
  request.durable = header->durable;
  request.memory_bytes = header->memory_bytes;
  find_key(frame, *body, [this, request = std::move(request)](Keyed known) mutable {
    request.key = known.key;
    request.debug_hash = known.debug_hash;
    request.body = std::move(known.body);
    compile(std::move(request));
  });
}

void ClientConnection::compile(CompileJob request) {
  const uint64_t id = request.waiter.request;
  services_.scheduler.submit(std::move(request), [weak = weak_from_this(), id](const Result<Served>& result) {
    auto self = weak.lock();
    if (!self || self->finished_) return;
    self->in_flight_.erase(id);
    result ? self->send_found(id, *result) : self->send_error(id, result.error());
  });
}

void ClientConnection::on_tune(wire::Frame frame) {
  auto header = wire::parse_tune_header(frame.json);
  if (!header) return reject("json", traced(header.error(), trace_id_of({}, frame.id())), frame.id());
  const std::string trace_id = trace_id_of(header->trace_id, frame.id());
  auto body = wire::split_compile_body(frame.body);
  if (!body) return refuse(frame.id(), "TUNE", trace_id, body.error());
  if (!is_neighbour_ && !services_.config.tune_from_containers) {
    return refuse(frame.id(), "TUNE", trace_id,
                  error(ErrorCode::kPermissionDenied,
                        "TUNE runs the kernel where the daemon is, and this client is of another process namespace (a "
                        "container), or hides its own; kilnd --tune-from-containers allows it"));
  }
  // The tuner's words name it too. What is longer than a frame would end the tuner, for everybody.
  if (header->trace_id.empty()) {
    header->trace_id = trace_id;
    frame.json = wire::to_text(*header);
    if (frame.json.size() > wire::kMaxJsonSize) {
      return refuse(
          frame.id(), "TUNE", trace_id,
          invalid_argument("TUNE: the header, with a trace id and defaults, is " + std::to_string(frame.json.size()) +
                           " bytes, over the limit of " + std::to_string(wire::kMaxJsonSize)));
    }
  }
  if (!admit(frame.id(), "TUNE", trace_id)) return;
  auto reply = [weak = weak_from_this(), id = frame.id(), trace_id](const Result<std::string>& answer) {
    auto self = weak.lock();
    if (!self || self->finished_) return;
    self->in_flight_.erase(id);
    if (!answer) return self->send_error(id, traced(answer.error(), trace_id));
    self->socket_->send({.type = wire::Type::kTuned, .request_id = id, .json = *answer, .flags = wire::flag::kLast});
  };
  TunerProcess::Request request{.requester = {id_, frame.id()},
                                .owner = owner_.id,
                                .trace_id = trace_id,
                                .json = std::move(frame.json),
                                .body = nullptr};
  find_key(frame, *body, [this, request = std::move(request), reply = std::move(reply)](Keyed known) mutable {
    request.key = known.key;
    request.body = std::move(known.body);
    services_.tuner.submit(std::move(request), std::move(reply));
  });
}

void ClientConnection::on_stats(const wire::Frame& frame) {
  auto request = wire::parse_object(frame.json);
  if (!request) return reject("json", request.error(), frame.id());
  wire::Fields fields(*request);
  const std::string format = fields.text("format", "json");
  const size_t last = fields.number("last", 0, UINT32_MAX);
  if (!fields.ok()) return reject("json", fields.error(), frame.id());
  const auto known = std::ranges::find(kFormats, format, &NamedFormat::name);
  if (known == std::end(kFormats)) {
    return send_error(frame.id(), invalid_argument("STATS: 'format' is none of json, prometheus, trace"));
  }
  if (!services_.reports.has_room(owner_.id)) {
    ++services_.metrics.rejected["reports"];
    return send_error(frame.id(), try_again("too many STATS at once of this process"));
  }
  services_.reports.ask(
      owner_.id, {known->format, last ? last : SIZE_MAX},
      [weak = weak_from_this(), id = frame.id()](const SharedBytes& text) {
        auto self = weak.lock();
        if (!self || self->finished_) return;
        --self->reports_wanted_;
        if (!text) return self->send_error(id, no_memory("for the figures"));
        self->socket_->send({.type = wire::Type::kResult, .request_id = id, .body = text, .flags = wire::flag::kLast});
      });
  ++reports_wanted_;
}

void ClientConnection::on_shutdown(uint64_t id) {
  services_.drain("asked to by a client");
  socket_->send({.type = wire::Type::kResult, .request_id = id, .flags = wire::flag::kLast});
}

void ClientConnection::send_found(uint64_t id, const Served& served, const std::string& index, uint32_t flags) {
  std::string json = std::string("{\"served_from\":\"") + tier_name(served.tier) + "\"";
  if (!index.empty()) json += ",\"index\":" + index;
  if (served.durable) json += *served.durable ? R"(,"durable":true)" : R"(,"durable":false)";
  Outgoing out{.type = wire::Type::kResult, .request_id = id, .flags = flags};
  const Blob& blob = *served.blob;
  if (blob.bytes.size() > wire::kMaxInlineEntry) out.fd = services_.store.descriptor(blob);
  if (out.fd) {
    out.fd_is_body = true;
    json += ",\"size\":" + std::to_string(blob.bytes.size());
  } else {
    out.body = SharedBytes(served.blob, &blob.bytes);
  }
  out.json = json + "}";
  socket_->send(std::move(out));
}

void ClientConnection::send_missing(uint64_t id, const std::string& index, uint32_t flags) {
  std::string json = R"({"code":"NOT_FOUND","message":"no such entry")";
  if (!index.empty()) json += ",\"index\":" + index;
  socket_->send({.type = wire::Type::kError, .request_id = id, .json = json + "}", .flags = flags});
}

void ClientConnection::send_error(uint64_t id, const Error& failure) {
  ++services_.metrics.errors[static_cast<size_t>(failure.code)];
  socket_->send(
      {.type = wire::Type::kError, .request_id = id, .json = wire::to_text(failure), .flags = wire::flag::kLast});
}

// The peer does not follow the protocol: say why and hang up. What concerns no request has the id 0.
void ClientConnection::reject(const std::string& reason, const Error& failure, uint64_t id) {
  ++services_.metrics.rejected[reason];
  services_.log.info(
      "connection_rejected",
      {{"client", id_}, {"reason", reason}, {"trace_id", failure.trace_id}, {"message", failure.message}});
  send_error(id, failure);
  close();
}

// Whatever memory there is: it is gone, and takes no place any more.
void ClientConnection::on_closed(const CloseReason& reason) {
  try {
    say_why(reason);
  } catch (const std::bad_alloc&) {
  }
  finish();
}

void ClientConnection::say_why(const CloseReason& reason) {
  if (reason.kind == CloseReason::kProtocol) {
    ++services_.metrics.rejected[reason.bad_magic ? "magic" : "protocol"];
    if (!reason.bad_magic) send_error(0, invalid_argument(reason.message));
  }
  if (reason.kind == CloseReason::kSlowReader) ++services_.metrics.rejected["slow_reader"];
  if (reason.kind == CloseReason::kSlowWriter) ++services_.metrics.rejected["slow_writer"];
}

void ClientConnection::close() {
  socket_->close_when_sent();
  finish();
}

void ClientConnection::finish() {
  if (std::exchange(finished_, true)) return;
  hello_timer_.cancel();
  auto keep = shared_from_this();
  services_.scheduler.forget_client(id_);
  services_.tuner.forget_client(id_);
  services_.closed(id_);
}

}  // namespace kiln::server
