// Reports that wait to be made. Client processes take turns, each with all its connections, so that one that asks for
// many delays itself alone; whoever wants what is made anyway gets the same.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "connections/frame_socket.h"

namespace kiln::server {

struct WantedReport {
  enum Format { kJson, kPrometheus, kTrace } format = kJson;
  size_t last = 0;  // of a trace (History::trace)

  bool operator==(const WantedReport&) const = default;
};

class ReportLine {
 public:
  struct Asked {
    uint64_t owner = 0;
    WantedReport wanted = {};
    std::function<void(SharedBytes)> done = {};
  };

  bool empty() const { return waiting_.empty(); }
  void push(Asked asked) { waiting_.push_back(std::move(asked)); }
  // The next one of the process whose turn it is, and all others that want the same; never empty where the line is not.
  std::vector<Asked> take();

 private:
  std::deque<Asked> waiting_;  // the oldest first
  uint64_t last_ = 0;          // whose turn it was; the next is that of the next higher number, round and round
};

}  // namespace kiln::server
