// The figures for a Prometheus that scrapes over HTTP: a port of the loopback device, off unless asked for. Other users
// of the machine can read it, so there is nothing but numbers.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "connections/frame_socket.h"
#include "kiln/dsl/result.h"
#include "reports/log.h"

namespace kiln::server {

class MetricsPort {
 public:
  // Calls back on the io thread with the figures, or null.
  using Text = std::function<void(std::function<void(SharedBytes)>)>;

  MetricsPort(boost::asio::io_context& io, Log& log, Text text)
      : acceptor_(io), rest_(io), log_(log), text_(std::move(text)) {}

  // A port that somebody else has is waited for.
  void listen(uint16_t port);
  void close();

 private:
  struct Visit;

  Result<void> open(uint16_t port);
  void accept();
  void make_room();
  void answer(const std::shared_ptr<Visit>& visit);
  void reply(const std::shared_ptr<Visit>& visit, std::string text);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer rest_;
  Log& log_;
  Text text_;
  bool refused_ = false;
  std::list<std::weak_ptr<Visit>> visits_;  // the oldest first
};

}  // namespace kiln::server
