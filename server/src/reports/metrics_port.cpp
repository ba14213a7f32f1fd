// One request a connection: read its head, answer, hang up.
#include "reports/metrics_port.h"

#include <algorithm>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

namespace kiln::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxHead = 8u << 10;
constexpr size_t kMaxVisits = 16;
constexpr auto kAcceptRest = std::chrono::milliseconds(100);
constexpr auto kPortRest = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(2);

std::string response(const char* status, const std::string& body) {
  return std::string("HTTP/1.1 ") + status +
         "\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace

struct MetricsPort::Visit {
  explicit Visit(tcp::socket from) : socket(std::move(from)), timer(socket.get_executor()) {}
  tcp::socket socket;
  asio::steady_timer timer;
  std::string head, reply;
  bool asked = false;  // its head is here
};

void MetricsPort::listen(uint16_t port) {
  if (auto opened = open(port); !opened) {
    error_code ignored;
    acceptor_.close(ignored);
    if (!std::exchange(refused_, true)) log_.warn("no_metrics_port", {{"reason", opened.error().message}});
    rest_.expires_after(kPortRest);
    return rest_.async_wait([this, port](const error_code& cancelled) {
      if (!cancelled) listen(port);
    });
  }
  log_.info("metrics_port", {{"port", port}});
  accept();
}

Result<void> MetricsPort::open(uint16_t port) {
  const tcp::endpoint here(asio::ip::address_v4::loopback(), port);
  error_code failed;
  if (acceptor_.open(here.protocol(), failed); !failed)
    acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor_.bind(here, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) {
    return error(ErrorCode::kUnavailable, "--metrics-port " + std::to_string(port) + ": " + failed.message());
  }
  return {};
}

void MetricsPort::close() {
  error_code ignored;
  acceptor_.close(ignored);
  rest_.cancel();
}

void MetricsPort::accept() {
  acceptor_.async_accept([this](const error_code& failed, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (failed) {  // no descriptors left: at once it would fail again
      rest_.expires_after(kAcceptRest);
      return rest_.async_wait([this](const error_code& cancelled) {
        if (!cancelled && acceptor_.is_open()) accept();
      });
    }
    make_room();
    if (visits_.size() < kMaxVisits) answer(std::make_shared<Visit>(std::move(socket)));
    accept();
  });
}

// Who has asked is answered; of those who have not, the oldest goes for one who comes.
void MetricsPort::make_room() {
  std::erase_if(visits_, [](const auto& each) { return each.expired(); });
  if (visits_.size() < kMaxVisits) return;
  const auto oldest = std::ranges::find_if(visits_, [](const auto& each) { return !each.lock()->asked; });
  if (oldest == visits_.end()) return;
  error_code ignored;
  oldest->lock()->socket.close(ignored);
  visits_.erase(oldest);
}

void MetricsPort::answer(const std::shared_ptr<Visit>& visit) {
  visits_.push_back(visit);
  visit->timer.expires_after(kPatience);
  visit->timer.async_wait([late = std::weak_ptr(visit)](const error_code& failed) {
    error_code ignored;
    if (const auto still = late.lock(); still && !failed) still->socket.close(ignored);
  });
  asio::async_read_until(
      visit->socket, asio::dynamic_buffer(visit->head, kMaxHead), "\r\n\r\n",
      [this, visit](const error_code& failed, size_t) {
        if (failed) return;
        visit->asked = true;
        const bool found = visit->head.starts_with("GET /metrics ") || visit->head.starts_with("GET / ");
        if (!found) return reply(visit, response("404 Not Found", "the figures are at /metrics\n"));
        text_([this, visit](const SharedBytes& text) {
          if (!text) return reply(visit, response("503 Service Unavailable", "no memory for the figures\n"));
          reply(visit, response("200 OK", {reinterpret_cast<const char*>(text->data()), text->size()}));
        });
      });
}

void MetricsPort::reply(const std::shared_ptr<Visit>& visit, std::string text) {
  visit->reply = std::move(text);
  asio::async_write(visit->socket, asio::buffer(visit->reply), [visit](const error_code&, size_t) {});
}

}  // namespace kiln::server
