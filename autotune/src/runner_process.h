// One runner process: how it is started, asked, and ended.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/wire/fd.h"

namespace kiln::autotune {

// Why a process is no more: it crashed, or it was ended because it hung or talked nonsense.
struct Death {
  Failure failure = Failure::kCrash;
  std::string message;
  std::optional<CandidateId> running;  // what it said it was running
};

// One of the three: an answer, a refusal that leaves the process alive, a death.
struct Answer {
  nlohmann::json reply;
  std::optional<Error> refused;
  std::optional<Death> death;
  bool device_lost = false;  // the process has ended itself behind the answer
};

class RunnerProcess {
 public:
  // `directory` is the caller's own, where the process's standard error is kept.
  static Result<std::unique_ptr<RunnerProcess>> start(const std::vector<std::string>& command,
                                                      const std::string& directory);
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  const RunnerInfo& info() const { return info_; }
  // `silence`: how long it may say nothing. While it waits for its turn it says so.
  Answer ask(nlohmann::json request, Seconds silence);

 private:
  RunnerProcess(pid_t pid, wire::UniqueFd socket, std::string directory);
  Result<void> greet();
  Death died(const Error& why);
  std::string last_words() const;
  // The status of waitpid; absent: it had to be killed.
  std::optional<int> end(bool at_once);

  pid_t pid_;
  wire::UniqueFd socket_;
  std::string directory_;
  LineReader lines_;
  RunnerInfo info_;
  int64_t next_id_ = 1;
  std::optional<CandidateId> running_;
};

}  // namespace kiln::autotune
