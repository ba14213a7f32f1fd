// Answers for launches of which nobody asked for a config: what was measured for the shape, else what the cost model
// chooses. On a thread of its own, in order; it measures and compiles nothing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "kiln/autotune/choose.h"
#include "kiln/autotune/serve.h"
#include "kiln/wire/messages.h"

namespace kiln::autotune {

class Chooser {
 public:
  using SharedCompiler = std::function<Result<std::shared_ptr<Compiler>>()>;
  using Answer = std::function<void(const Result<wire::Tuned>&)>;

  Chooser(const ServeOptions& options, SharedCompiler compiler);
  ~Chooser() = default;
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;

  // `answer` is called on the thread.
  void add(Job job, wire::TuneHeader header, Answer answer);

 private:
  struct Question {
    Job job;
    wire::TuneHeader header;
    Answer answer;
  };

  void run(const std::stop_token& stop);
  Result<wire::Tuned> answer(const Job& job, const wire::TuneHeader& header);
  Result<void> open();
  std::optional<wire::Tuned> measured(const Job& job, const RecordKey& key, const wire::TuneHeader& header) const;
  std::optional<Machine> machine_of(const RecordKey& key) const;

  const ServeOptions& options_;
  const SharedCompiler compiler_;
  std::string builder_;  // empty: not asked for yet
  std::unique_ptr<Records> golden_, records_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Question> queue_;
  std::jthread thread_;  // ends first
};

}  // namespace kiln::autotune
