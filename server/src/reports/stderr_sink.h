// Standard error as the log's end. It may be a pipe that nobody reads, or a terminal that stands still: what finds no
// room is dropped and counted, and the next line that fits says how many there were.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "kiln/wire/fd.h"

namespace kiln::server {

class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Whether lines come with their braces, or the pattern adds them.
  enum class Lines { kWhole, kOfPattern };
  explicit StderrSink(Lines lines);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override { (void)write_rest(); }

 private:
  ssize_t write_some(std::string_view text);
  bool write_line(std::string_view line);
  bool write_rest();
  bool say_dropped(const spdlog::details::log_msg& message);

  const Lines lines_;
  bool is_socket_ = false;
  wire::UniqueFd own_;  // the same pipe or terminal, opened once more
  std::string rest_;    // of a line that has begun
  uint64_t dropped_ = 0;
};

}  // namespace kiln::server
