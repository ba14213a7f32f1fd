// Many kernels at once, as those of a graph's plan.
#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>

#include "core.h"
#include "kiln/wire/crash_report.h"
#include "profile/recorder.h"
#include "signals.h"

namespace kiln::client {
namespace {

// Requests in flight at once: each waits in a thread, whose stack is small. The daemon has as many workers as it likes.
constexpr size_t kMostInFlight = 32;

using Artifacts = std::vector<Result<Artifact>>;

// Each that is missing once, side by side.
class Compiling {
 public:
  Compiling(Connection& daemon, std::span<const RequestBytes> requests, std::span<const size_t> missing,
            const CompileOptions& options, Artifacts& artifacts)
      : daemon_(daemon), requests_(requests), missing_(missing), options_(options), artifacts_(artifacts) {
    options_.cancel = stop_.get_token();
  }

  void run(const std::stop_token& cancel) {
    const std::stop_callback forward(cancel, [this] { stop_.request_stop(); });
    std::vector<std::jthread> threads;
    try {
      const SignalsBlocked inherited_by_the_threads;
      while (threads.size() + 1 < std::min(missing_.size(), kMostInFlight)) {
        threads.emplace_back(wire::reporting([this] { work(); }));
      }
    } catch (const std::system_error&) {  // no more threads: these and this one do it
    }
    work();
  }

 private:
  void work() {
    for (size_t i = next_++; i < missing_.size(); i = next_++) {
      Result<Artifact>& artifact = artifacts_[missing_[i]];
      artifact = daemon_.compile(requests_[missing_[i]], options_);
      if (!artifact) stop_.request_stop();
    }
  }

  Connection& daemon_;
  const std::span<const RequestBytes> requests_;
  const std::span<const size_t> missing_;
  CompileOptions options_;
  Artifacts& artifacts_;
  std::stop_source stop_;
  std::atomic<size_t> next_{0};
};

// What came of requests, of which equal ones are one.
struct Fetched {
  std::vector<size_t> number_of;  // into `artifacts`, by request
  Artifacts artifacts;
};

Fetched fetch_all(Connection& daemon, std::span<const RequestBytes> requests, const CompileOptions& options) {
  Fetched out;
  std::map<RequestKey, size_t> numbers;
  std::vector<RequestKey> keys;
  std::vector<RequestBytes> distinct;
  for (const RequestBytes& request : requests) {
    const RequestKey key = daemon.key_of(request);
    const auto [entry, fresh] = numbers.try_emplace(key, keys.size());
    out.number_of.push_back(entry->second);
    if (!fresh) continue;
    keys.push_back(key);
    distinct.push_back(request);
  }
  out.artifacts = daemon.get_many(keys);
  std::vector<size_t> missing;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!out.artifacts[i] && out.artifacts[i].error().code == ErrorCode::kNotFound) missing.push_back(i);
  }
  if (!missing.empty()) Compiling(daemon, distinct, missing, options, out.artifacts).run(options.cancel);
  return out;
}

// What went wrong first: others may have been cancelled for it.
std::optional<size_t> failure_of(const Fetched& fetched) {
  std::optional<size_t> out;
  for (size_t i = 0; i < fetched.number_of.size(); ++i) {
    const auto& artifact = fetched.artifacts[fetched.number_of[i]];
    if (artifact) continue;
    if (artifact.error().code != ErrorCode::kCancelled) return i;
    if (!out) out = i;
  }
  return out;
}

}  // namespace

Result<std::vector<std::shared_ptr<const Variant>>> Core::compile_all(std::span<const CompileSpec> specs,
                                                                      const CompileOptions& options, size_t& failed) {
  const TimedCompile timed(std::to_string(specs.size()) + " kernels");
  std::vector<std::shared_ptr<const Variant>> out;
  const bool interpreted = !specs.empty() && specs[0].target == kInterpreter;
  std::vector<RequestBytes> requests;
  for (failed = 0; failed < specs.size() && !interpreted; ++failed) {
    const CompileSpec& spec = specs[failed];
    auto request = request_of(spec, spec.base);
    if (!request) return request.error();
    requests.push_back(std::move(*request));
  }
  Fetched fetched;
  if (!requests.empty()) {
    auto daemon = connection(options.deadline_ms);
    if (!daemon) return daemon.error();
    fetched = fetch_all(**daemon, requests, options);
    if (const auto bad = failure_of(fetched)) {
      failed = *bad;
      return fetched.artifacts[fetched.number_of[*bad]].error();
    }
  }
  for (failed = 0; failed < specs.size(); ++failed) {
    const CompileSpec& spec = specs[failed];
    auto variant = interpreted ? interpreted_variant(*spec.kernel, spec.constexprs, spec.base)
                               : load_variant(*spec.kernel, *fetched.artifacts[fetched.number_of[failed]], spec.base);
    if (!variant) return variant.error();
    out.push_back(std::move(*variant));
  }
  return out;
}

}  // namespace kiln::client
