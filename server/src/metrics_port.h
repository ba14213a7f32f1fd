// The figures for a Prometheus that scrapes over HTTP: a port of the loopback device, off unless asked for. Other users
// of the machine can read it, so there is nothing but numbers.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::server {

class MetricsPort {
 public:
  using Text = std::function<std::string()>;

  MetricsPort(boost::asio::io_context& io, Text text) : acceptor_(io), rest_(io), text_(std::move(text)) {}

  Result<void> listen(uint16_t port);
  void close();

 private:
  struct Visit;

  void accept();
  void answer(const std::shared_ptr<Visit>& visit);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer rest_;
  Text text_;
  size_t visits_ = 0;
};

}  // namespace kiln::server
