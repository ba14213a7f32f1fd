// What workers log: one JSON object a line, in the form of the daemon's log, which the daemon keeps.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace kiln::worker {

class WorkerLog {
 public:
  explicit WorkerLog(bool wanted) : wanted_(wanted) {}

  // To standard error, in one write. What finds no room in it is lost.
  void write(std::string_view event, nlohmann::json fields) const;

 private:
  bool wanted_;
};

}  // namespace kiln::worker
