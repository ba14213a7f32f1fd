// What a tuner and a runner say to each other, for both ends: docs/reference/runner.md is the manual.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "kiln/autotune/runner.h"
#include "kiln/wire/channel.h"

namespace kiln::autotune {

inline constexpr int kRunnerProtocol = 1;
inline constexpr size_t kMaxRunnerLine = 1u << 20;

nlohmann::json workload_to_json(const Workload& workload);
Result<Workload> workload_from_json(const nlohmann::json& value);

// The greeting, with the protocol's number.
nlohmann::json hello_of(const RunnerInfo& info);
Result<RunnerInfo> parse_hello(const nlohmann::json& value);

const char* to_string(Cache cache);
Result<Cache> parse_cache(const std::string& name);
Result<Failure> parse_failure(const std::string& name);

nlohmann::json status_to_json(const CandidateStatus& status);
Result<CandidateStatus> status_from_json(const nlohmann::json& value);

// The times of a measurement's answer, by round and candidate; NaN where there is none.
Result<std::vector<std::vector<double>>> rounds_from_json(const nlohmann::json& reply);

// An artifact in two files: the code in `path`, the metadata in `path`.json.
Result<void> write_artifact(const std::string& path, const Artifact& artifact);
Result<Artifact> read_artifact(const std::string& path);
Result<void> write_file(const std::string& path, std::span<const std::byte> bytes);
Result<std::vector<std::byte>> read_file(const std::string& path);

// Lines of a pipe. Not thread-safe.
class LineReader {
 public:
  // What is read beside the lines whenever there is something.
  struct Aside {
    int fd = -1;
    std::function<void()> read = {};
  };
  explicit LineReader(int fd) : fd_(fd) {}
  LineReader(int fd, Aside aside) : fd_(fd), aside_(std::move(aside)) {}
  // Without its end. kUnavailable: the pipe was closed. kDeadlineExceeded. kInvalidArgument: no line ends within
  // kMaxRunnerLine.
  Result<std::string> read(wire::Deadline deadline = wire::kNoDeadline);

 private:
  Result<void> wait(wire::Deadline deadline);

  int fd_;
  Aside aside_;
  std::string buffer_;
};
// One line, in one piece. kUnavailable: nobody reads any more.
Result<void> write_line(int fd, const nlohmann::json& value);

}  // namespace kiln::autotune
