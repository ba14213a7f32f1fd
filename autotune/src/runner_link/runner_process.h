// One runner process: how it is started, asked, and ended.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/report_room.h"
#include "records/last_words.h"

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
  static Result<std::unique_ptr<RunnerProcess>> start(const std::vector<std::string>& command,
                                                      std::stop_token stop = {});
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  const RunnerInfo& info() const { return info_; }
  // `turn`: the wall time of the request until its first candidate, and of each of its candidates; the turns of other
  // processes on the device do not count, within limits. What takes longer than a moment is given up at a stop: a
  // refusal with kCancelled, and the end of the process.
  Answer ask(nlohmann::json request, Seconds turn);

 private:
  RunnerProcess(pid_t pid, wire::UniqueFd socket, wire::UniqueFd errors, wire::ReportRoom report, std::stop_token stop);
  Result<void> greet();
  // Moves the deadline by the time for which this process stood still, with the runner most likely.
  Result<std::string> next_line(wire::Deadline& deadline);
  Death died(const Error& why);
  // The status of waitpid; absent: it had to be killed.
  std::optional<int> end(bool at_once);
  void keep_report() const;

  pid_t pid_;
  wire::UniqueFd socket_;
  wire::ReportRoom report_;
  LastWords words_;
  std::stop_token stop_;
  LineReader lines_;
  RunnerInfo info_;
  int64_t next_id_ = 1;
  std::optional<CandidateId> running_;
  std::chrono::steady_clock::time_point stopped_ = std::chrono::steady_clock::time_point::max();  // when that was asked
};

}  // namespace kiln::autotune
