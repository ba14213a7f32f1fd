// What is shown while a batch runs: on a terminal one line that is drawn anew, elsewhere a line for each job.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "kiln/autotune/batch.h"

namespace kiln::autotune::cli {

class ProgressLines {
 public:
  ProgressLines(std::FILE* out, bool terminal, bool verbose, Seconds budget)
      : out_(out), terminal_(terminal), verbose_(verbose), budget_(budget) {}

  void changed(const BatchResult& so_far, size_t job);
  void measured(const BatchResult& so_far, size_t job, const Record& record);
  // A line of its own.
  void say(const std::string& line) { print(line); }
  // Removes the line that is drawn anew.
  void finish();

 private:
  void draw(const BatchResult& so_far, size_t job, bool now);
  void print(const std::string& line);
  std::string remaining(const BatchResult& so_far) const;

  std::FILE* out_;
  bool terminal_, verbose_, drawn_ = false;
  Seconds budget_;
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace kiln::autotune::cli
