// How long a compile's phases and passes take.
#pragma once

#include <chrono>
#include <map>

#include "kiln/abi/metadata.h"
#include "kiln/codegen/compile.h"

namespace kiln::codegen {

// Microseconds by name; the same name again adds to it.
class Stopwatch {
 public:
  void begin(std::string_view name) {
    end();
    name_ = std::string(name);
    since_ = Clock::now();
  }
  void end() {
    if (!name_.empty()) times_[name_] += microseconds_since(since_);
    name_.clear();
  }
  const std::map<std::string, int64_t>& times() const { return times_; }

  using Clock = std::chrono::steady_clock;
  static int64_t microseconds_since(Clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - since).count();
  }

 private:
  Clock::time_point since_;
  std::string name_;
  std::map<std::string, int64_t> times_;
};

// The phases of a compile follow each other; passes are parts of phases. The heartbeat is told of phases.
class Phases {
 public:
  explicit Phases(const Progress& progress) : progress_(progress) {}

  void begin(std::string_view name) {
    phases_.begin(name);
    if (progress_) progress_(name);
  }
  void begin_pass(std::string_view name) { passes_.begin(name); }
  void end_pass() { passes_.end(); }

  // Adds `phases_us` and `passes_us`.
  void describe(abi::Metadata& metadata) {
    phases_.end();
    metadata.phases_us = phases_.times();
    metadata.phases_us["total"] = Stopwatch::microseconds_since(start_);
    metadata.passes_us = passes_.times();
  }

 private:
  const Progress& progress_;
  const Stopwatch::Clock::time_point start_ = Stopwatch::Clock::now();
  Stopwatch phases_, passes_;
};

}  // namespace kiln::codegen
