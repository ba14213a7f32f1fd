// What owns children of the daemon has around it, without a daemon.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "config.h"
#include "connections/frame_socket.h"
#include "reports/log.h"
#include "reports/metrics.h"
#include "service_fixture.h"

namespace kiln::service_test {

struct ChildOwner {
  TempDir temp;
  boost::asio::io_context io;
  boost::asio::steady_timer first{io};  // with which Asio opens the descriptors that it has for itself
  server::Config config;
  server::Log log{temp / "log", "info"};
  server::Metrics metrics;
  std::shared_ptr<server::Bytes> scratch = std::make_shared<server::Bytes>(4096);

  // Runs what is due until it is so.
  bool run_until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      io.restart();
      io.run_one_for(100ms);
    }
    return condition();
  }
};

}  // namespace kiln::service_test
