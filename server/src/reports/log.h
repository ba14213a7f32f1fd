// The daemon's log: one JSON object a line, with the time, an event name and its fields.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "reports/json_fields.h"

namespace spdlog {
class logger;
}

namespace kiln::server {

class Log {
 public:
  // An empty path means standard error. A file that cannot be opened falls back to standard error.
  Log(const std::string& path, const std::string& level);
  ~Log();

  void debug(std::string_view event, JsonFields fields = {});
  void info(std::string_view event, JsonFields fields = {});
  void warn(std::string_view event, JsonFields fields = {});
  void set_level(const std::string& level);
  void flush();

 private:
  void write(int level, std::string_view event, JsonFields fields);
  std::shared_ptr<spdlog::logger> logger_;
};

// Lines that others have made, as they are, into a file that is rotated likewise, or to standard error. A file that
// cannot be written is done without.
class LineLog {
 public:
  explicit LineLog(const std::string& path);
  void write(std::string_view line);

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace kiln::server
