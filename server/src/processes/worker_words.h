// What the zygote and its workers write to standard output and error: their log's lines and whatever libraries say. It
// comes through a pipe that the daemon reads, so that a worker that was taken over has no file of the daemon's to fill,
// or to write into what a terminal would obey.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"
#include "reports/log.h"

namespace kiln::server {

namespace asio = boost::asio;

class WorkerWords {
 public:
  // Lines that are JSON objects with an `event`, and printable ASCII, go into `file` (empty: standard error), all
  // others into `log` as `worker_said`.
  WorkerWords(asio::io_context& io, const std::string& file, Log& log);

  Result<void> start();
  void stop();
  // What workers are given as standard output and error. It never makes them wait: what finds no room is lost.
  int end() const { return theirs_.get(); }
  // Each job may say so much more; what goes beyond is counted and dropped.
  void job_begins();
  // What has been said by now.
  void hear();

 private:
  void listen();
  void take(std::string_view bytes);
  void line(const std::string& text);

  asio::io_context& io_;
  asio::steady_timer rest_;
  asio::posix::stream_descriptor ours_;
  wire::UniqueFd theirs_;
  LineLog lines_;
  Log& log_;
  std::string partial_;
  size_t allowance_, dropped_ = 0;
  char buffer_[16 << 10];
};

}  // namespace kiln::server
