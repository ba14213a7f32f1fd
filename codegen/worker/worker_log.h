// What workers log: one JSON object a line, in the form of the daemon's log, all into one file.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "kiln/wire/fd.h"

namespace kiln::worker {

class WorkerLog {
 public:
  // `path` is null for none and "-" for standard error. A file that has grown past 4 MiB is renamed to PATH.1 first;
  // one that cannot be opened is done without. Several processes may write to it.
  explicit WorkerLog(const char* path);

  void write(std::string_view event, const nlohmann::json& fields) const;

 private:
  wire::UniqueFd file_;
};

}  // namespace kiln::worker
