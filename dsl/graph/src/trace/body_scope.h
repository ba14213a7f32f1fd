// A body that is traced: abandoned at the end of the scope unless it was closed, so that an exception of the author's
// function leaves the trace as it was.
#pragma once

#include <utility>

#include "trace/trace.h"

namespace kiln::graph {

class BodyScope {
 public:
  BodyScope(Trace& trace, std::string what, std::string name, const SourceLocation& loc,
            Trace::Outside outside = Trace::Outside::kCaptured)
      : trace_(trace), loc_(loc) {
    trace_.open_body(std::move(what), std::move(name), loc, outside);
  }
  ~BodyScope() {
    if (open_) trace_.abandon_body();
  }
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;

  Tensor add_input(std::string name, const TensorType& type) { return trace_.add_input(std::move(name), type, loc_); }
  std::optional<Trace::ClosedBody> close(const std::vector<Tensor>& outputs) {
    open_ = false;
    return trace_.close_body(outputs, loc_);
  }

 private:
  Trace& trace_;
  SourceLocation loc_;
  bool open_ = true;
};

}  // namespace kiln::graph
