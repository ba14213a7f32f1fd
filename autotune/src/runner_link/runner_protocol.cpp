#include "kiln/autotune/runner_protocol.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr const char* kFailures[] = {"none",      "compile",      "crash",          "hang",
                                     "resources", "wrong_result", "impossible_time"};
constexpr const char* kCaches[] = {"cold", "hot"};

template <size_t N>
std::optional<size_t> find_name(const char* const (&names)[N], const std::string& name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return i;
  }
  return std::nullopt;
}

// A field of an object, or the fallback where it is absent or of another type.
std::string text_of(const json& value, const char* field) {
  const json found = value.is_object() ? value.value(field, json()) : json();
  return found.is_string() ? found.get<std::string>() : "";
}
std::optional<int64_t> int_of(const json& value, const char* field) {
  const json found = value.is_object() ? value.value(field, json()) : json();
  return found.is_number_integer() ? std::optional(found.get<int64_t>()) : std::nullopt;
}

Error bad_workload() { return invalid_argument("this is no workload"); }

Result<WorkloadArgument> argument_from_json(const json& value) {
  WorkloadArgument out;
  if (!value.is_object()) return bad_workload();
  const json bits = value.value("bits", json(0)), elements = value.value("elements", json(0));
  if (!bits.is_number_integer() || !elements.is_number_integer()) return bad_workload();
  out.bits = bits.get<uint64_t>();
  out.elements = elements.get<int64_t>();
  const auto low = int_of(value, "low"), high = int_of(value, "high");
  if (low && high) out.range = {*low, *high};
  out.file = text_of(value, "file");
  out.content = text_of(value, "content");
  return out;
}

}  // namespace

const char* to_string(Failure failure) { return kFailures[static_cast<size_t>(failure)]; }
const char* to_string(Cache cache) { return kCaches[static_cast<size_t>(cache)]; }

Result<Failure> parse_failure(const std::string& name) {
  if (auto index = find_name(kFailures, name)) return static_cast<Failure>(*index);
  return invalid_argument("unknown failure `" + name + "`");
}
Result<Cache> parse_cache(const std::string& name) {
  if (auto index = find_name(kCaches, name)) return static_cast<Cache>(*index);
  return invalid_argument("unknown cache mode `" + name + "`; there are `cold` and `hot`");
}

json workload_to_json(const Workload& workload) {
  json arguments = json::array();
  for (const WorkloadArgument& argument : workload.arguments) {
    json one = json::object();
    if (argument.bits != 0) one["bits"] = argument.bits;
    if (argument.elements != 0) one["elements"] = argument.elements;
    if (argument.range) {
      one["low"] = argument.range->first;
      one["high"] = argument.range->second;
    }
    if (!argument.file.empty()) {
      one["file"] = argument.file;
      one["content"] = argument.content;
    }
    arguments.push_back(std::move(one));
  }
  return {{"arguments", arguments}, {"fixed", workload.fixed}, {"seed", workload.seed}};
}

Result<Workload> workload_from_json(const json& value) {
  Workload out;
  const json arguments = value.is_object() ? value.value("arguments", json()) : json();
  if (!arguments.is_array()) return bad_workload();
  for (const json& one : arguments) {
    auto argument = argument_from_json(one);
    if (!argument) return argument.error();
    out.arguments.push_back(*argument);
  }
  const json fixed = value.value("fixed", json::object()), seed = value.value("seed", json(0));
  if (!fixed.is_object() || !seed.is_number_integer()) return bad_workload();
  for (const auto& [name, number] : fixed.items()) {
    if (!number.is_number_integer()) return bad_workload();
    out.fixed[name] = number.get<int64_t>();
  }
  out.seed = seed.get<uint64_t>();
  return out;
}

json hello_of(const RunnerInfo& info) {
  return {{"hello",
           {{"protocol", kRunnerProtocol},
            {"target", info.target},
            {"device", info.device},
            {"fingerprint", info.fingerprint},
            {"threads", info.threads}}}};
}

Result<RunnerInfo> parse_hello(const json& value) {
  const json hello = value.is_object() ? value.value("hello", json()) : json();
  if (!hello.is_object()) return invalid_argument("its first line is no greeting");
  const auto protocol = int_of(hello, "protocol");
  if (protocol != kRunnerProtocol) {
    return error(ErrorCode::kVersionMismatch, "it speaks protocol " + (protocol ? std::to_string(*protocol) : "?") +
                                                  ", this tuner " + std::to_string(kRunnerProtocol));
  }
  RunnerInfo out;
  out.target = text_of(hello, "target");
  out.device = text_of(hello, "device");
  out.fingerprint = text_of(hello, "fingerprint");
  out.threads = static_cast<int>(int_of(hello, "threads").value_or(0));
  if (out.target.empty() || out.fingerprint.empty()) {
    return invalid_argument("its greeting lacks `target` or `fingerprint`");
  }
  return out;
}

json status_to_json(const CandidateStatus& status) {
  return {{"failure", to_string(status.failure)}, {"message", status.message}};
}

Result<CandidateStatus> status_from_json(const json& value) {
  auto failure = parse_failure(text_of(value, "failure"));
  if (!failure) return failure.error();
  return CandidateStatus{*failure, text_of(value, "message")};
}

// `us` holds lists, or the times of one round.
Result<std::vector<std::vector<double>>> rounds_from_json(const json& reply) {
  const json us = reply.is_object() ? reply.value("us", json()) : json();
  if (!us.is_array()) return invalid_argument("`us` must be a list");
  const bool one = us.empty() || !us.front().is_array();
  std::vector<std::vector<double>> out;
  for (const json& round : one ? json::array({us}) : us) {
    if (!round.is_array()) return invalid_argument("`us` must be a list of lists");
    std::vector<double> times;
    for (const json& time : round) times.push_back(time.is_number() ? time.get<double>() : std::nan(""));
    out.push_back(std::move(times));
  }
  return out;
}

Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return error(ErrorCode::kResourceExhausted, path + " cannot be written");
  return {};
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(ErrorCode::kNotFound, path + " cannot be read");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Result<void> write_artifact(const std::string& path, const Artifact& artifact) {
  const std::string metadata = abi::write_metadata(artifact.metadata);
  if (auto done = write_file(path + ".json", std::as_bytes(std::span(metadata))); !done) return done;
  return write_file(path, artifact.code);
}

Result<Artifact> read_artifact(const std::string& path) {
  auto code = read_file(path);
  if (!code) return code.error();
  auto text = read_file(path + ".json");
  if (!text) return text.error();
  auto metadata = abi::read_metadata({reinterpret_cast<const char*>(text->data()), text->size()});
  if (!metadata) {
    return invalid_argument(path + ".json is no metadata of an artifact: it has " + metadata.error().message);
  }
  return Artifact{std::move(*metadata), std::move(*code)};
}

// Until there is something to read. The deadline holds whatever arrives beside it.
Result<void> LineReader::wait(wire::Deadline deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline != wire::kNoDeadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - wire::Clock::now()).count();
      if (left <= 0) return error(ErrorCode::kDeadlineExceeded, "no answer in time");
      timeout = static_cast<int>(std::min<int64_t>(left, 60'000));
    }
    pollfd ends[] = {{fd_, POLLIN, 0}, {aside_.fd, POLLIN, 0}};  // poll leaves out what is below 0
    const int ready = ::poll(ends, std::size(ends), timeout);
    if (ready < 0 && errno != EINTR) return wire::errno_error(ErrorCode::kInternal, "poll", errno);
    if (ready <= 0) continue;
    if (ends[1].revents != 0) aside_.read();
    if (ends[1].revents & (POLLHUP | POLLERR)) aside_.fd = -1;
    if (ends[0].revents != 0) return {};
  }
}

Result<std::string> LineReader::read(wire::Deadline deadline) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > kMaxRunnerLine) return invalid_argument("a line is too long");
    if (auto ready = wait(deadline); !ready) return ready.error();
    char chunk[4096];
    const ssize_t count = ::read(fd_, chunk, sizeof chunk);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return error(ErrorCode::kUnavailable, "the pipe was closed");
    buffer_.append(chunk, static_cast<size_t>(count));
  }
}

Result<void> write_line(int fd, const json& value) {
  const std::string line = value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t done = 0; done < line.size();) {
    // To a socket without SIGPIPE, which would end a process whose runner has died.
    ssize_t count = ::send(fd, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == ENOTSOCK) count = ::write(fd, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return wire::errno_error(ErrorCode::kUnavailable, "write", errno);
    done += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace kiln::autotune
