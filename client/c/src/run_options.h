// Options of runs and launches, with what they name kept for the call.
#pragma once

#include <map>
#include <string>

#include "arrays.h"
#include "errors.h"
#include "objects.h"

namespace kiln::c {

// Lines of `print` to a caller's function; none of it: the client's own way.
std::function<void(const dsl::PrintRecord&)> print_to(kiln_print_fn print, void* data);

// Names and numbers. Error: a name that is missing, or there twice.
Result<std::map<std::string, int64_t>> named_ints(const kiln_named_int* list, size_t count, const char* what);

// Of one run. Stays where it is: `options` points into it.
class KnownRunOptions {
 public:
  KnownRunOptions() = default;
  KnownRunOptions(const KnownRunOptions&) = delete;
  KnownRunOptions& operator=(const KnownRunOptions&) = delete;

  // `place`: of the graph; with a stream it becomes the stream's device.
  Result<void> read(const kiln_run_options* given, Place& place);
  // Times are there once the run is done.
  void give_times() const;

  RunOptions options;

 private:
  Pinned<CancelObject> cancel_;
  Pinned<StreamObject> stream_;
  std::vector<double> times_;
  double* times_out_ = nullptr;
};

}  // namespace kiln::c
