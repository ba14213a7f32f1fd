// PyTorch, which ../peers.py runs in a process of its own.
#pragma once

#include <boost/process.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "quickstart/cases.h"

namespace kiln::bench {

class Torch {
 public:
  Torch(const std::string& python, int threads);
  ~Torch();
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  // Whether there is a Python; whether that has PyTorch, the answers say.
  bool is_there() const { return !error_; }
  // Makes inputs and compiles: those of eager and inductor that do this case's work. `why` says why there is none.
  std::vector<std::string> prepare(const quickstart::Case& test, std::string& why);
  // Seconds of one run of the last case prepared.
  double seconds(const std::string& who, int repeats);

 private:
  std::string ask(const std::string& question);

  boost::process::opstream to_;
  boost::process::ipstream from_;
  std::error_code error_;
  boost::process::child child_;
};

}  // namespace kiln::bench
