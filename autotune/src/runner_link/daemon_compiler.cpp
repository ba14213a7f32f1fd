// Threads that wait for a daemon's workers: as many as compiles may be in flight. Requests have background priority, so
// that people are served first, and are cancelled when the compiler goes.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "kiln/autotune/compiler.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/crash_report.h"

namespace kiln::autotune {
namespace {

class DaemonCompiler final : public Compiler {
 public:
  DaemonCompiler(std::unique_ptr<client::Connection> connection, int ahead) : connection_(std::move(connection)) {
    for (int i = 0; i < std::max(ahead, 1); ++i) {
      threads_.emplace_back(wire::reporting([this](const std::stop_token& stop) { work(stop); }));
    }
  }
  ~DaemonCompiler() override {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  std::string builder_id() const override { return connection_->server().builder_id; }

  Result<std::string> resolve_target(const std::string& target) override {
    if (target == "cpu") return connection_->server().native_target;
    if (target.find(':') != std::string::npos) return target;
    auto present = client::devices(target);
    if (!present) return present.error();
    return present->front().target;
  }

  std::future<Result<Artifact>> compile(const dsl::Kernel& kernel, const std::string& target, const Config& config,
                                        const dsl::Facts& facts) override {
    std::packaged_task<Result<Artifact>(std::stop_token)> task(
        [this, kernel, target, config, facts](std::stop_token stop) -> Result<Artifact> {
          return compile_now(kernel, target, config, facts, std::move(stop));
        });
    std::future<Result<Artifact>> out = task.get_future();
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
    return out;
  }

  size_t at_once() const override { return threads_.size(); }

  void hold() override {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.wait(lock, [this] { return in_flight_ == 0; });
  }
  void release() override {
    {
      std::lock_guard lock(mutex_);
      held_ = false;
    }
    changed_.notify_all();
  }

 private:
  Result<Artifact> compile_now(const dsl::Kernel& kernel, const std::string& target, const Config& config,
                               const dsl::Facts& facts, std::stop_token stop) {
    if (stop.stop_requested()) return error(ErrorCode::kCancelled, "the compiler is gone");
    auto resolved = resolve_target(target);
    if (!resolved) return resolved.error();
    auto complete = dsl::complete_constexprs(kernel, config, *resolved);
    if (!complete) return complete.error();
    auto request = dsl::encode_request({kernel, *resolved, *complete, facts});
    if (!request) return request.error();
    return connection_->fetch(*request, {.priority = client::Priority::kBackground, .cancel = std::move(stop)});
  }

  // What is left at the end is carried out too, which by then is only to say that it was cancelled.
  void work(const std::stop_token& stop) {
    for (;;) {
      std::packaged_task<Result<Artifact>(std::stop_token)> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [this] { return !held_ && !tasks_.empty(); });
        if (tasks_.empty() || (held_ && !stop.stop_requested())) {
          if (stop.stop_requested()) return;
          continue;
        }
        task = std::move(tasks_.front());
        tasks_.pop_front();
        ++in_flight_;
      }
      task(stop);
      {
        std::lock_guard lock(mutex_);
        --in_flight_;
      }
      changed_.notify_all();
    }
  }

  const std::unique_ptr<client::Connection> connection_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::packaged_task<Result<Artifact>(std::stop_token)>> tasks_;
  int in_flight_ = 0;
  bool held_ = false;
  std::vector<std::jthread> threads_;  // end first
};

}  // namespace

bool is_verdict(ErrorCode code) {
  using enum ErrorCode;
  constexpr ErrorCode kVerdicts[] = {kInvalidArgument, kVerifyFailed, kCompileFailed,
                                     kWorkerCrashed,   kPoisoned,     kOutOfMemory};
  return std::find(std::begin(kVerdicts), std::end(kVerdicts), code) != std::end(kVerdicts);
}

int compiles_at_once() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores - 4, 4, 32);
}

Result<std::unique_ptr<Compiler>> daemon_compiler(const client::ConnectOptions& options, int ahead) {
  auto connection = client::Connection::open(options);
  if (!connection) return connection.error();
  return std::unique_ptr<Compiler>(std::make_unique<DaemonCompiler>(std::move(*connection), ahead));
}

}  // namespace kiln::autotune
