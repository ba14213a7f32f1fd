// The thread of one device behind a daemon: it says which device that is, and tunes on it, one search at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "kiln/autotune/serve.h"

namespace kiln::autotune {

// What measurements on a device hold for.
struct Identity {
  std::string hardware;  // RunnerInfo::fingerprint
  std::string builder;   // Compiler::builder_id
};

struct OpenSearch {
  uint64_t number = 0;  // from 1 on
  Job job;
  RecordKey key;
  Seconds budget{};
  std::set<uint64_t> waiting = {};      // requests; its owner's
  std::atomic<bool> is_urgent = false;  // a launch waits for the result
};
using SearchPtr = std::shared_ptr<OpenSearch>;

class DeviceTuner {
 public:
  struct Device {
    std::string kind;
    int ordinal = 0;
  };
  // Called on the device's thread.
  struct Events {
    std::function<void(const Result<Identity>&)> named = {};
    std::function<void(const OpenSearch&, const Result<JobResult>&)> finished = {};
  };
  // One for all devices, so that nothing compiles while a CPU is measured.
  using SharedCompiler = std::function<Result<std::shared_ptr<Compiler>>()>;

  DeviceTuner(const ServeOptions& options, Device device, SharedCompiler compiler, Events events);
  ~DeviceTuner() = default;
  DeviceTuner(const DeviceTuner&) = delete;
  DeviceTuner& operator=(const DeviceTuner&) = delete;

  // named() will be called.
  void ask_name();
  void add(SearchPtr search);
  // A launch waits for it: it is the next, and need not wait for an idle daemon.
  void hurry(const SearchPtr& search, Seconds budget);

 private:
  struct Parts;

  void run(const std::stop_token& stop);
  void name(Parts& parts);
  Result<Compiler*> compiler(Parts& parts) const;
  Result<Runner*> runner(Parts& parts) const;
  Result<JobResult> tune_now(const OpenSearch& search, Parts& parts, const std::stop_token& stop) const;

  const ServeOptions& options_;
  const Device device_;
  const SharedCompiler compiler_;
  const Events events_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool name_wanted_ = false;
  std::deque<SearchPtr> queue_;
  std::jthread thread_;  // ends first
};

}  // namespace kiln::autotune
