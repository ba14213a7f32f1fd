// Tells when names in a directory change.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>

namespace kiln::server {

namespace asio = boost::asio;

class DirectoryWatch {
 public:
  explicit DirectoryWatch(asio::io_context& io) : io_(io) {}

  // Calls `on_change`, on the io thread, after names were made, moved or removed in the directory, or it was itself. On
  // machines without inotify, or past its limits, it never does.
  void start(const std::string& directory, std::function<void()> on_change);
  void stop() { events_ = nullptr; }

 private:
  void wait();

  asio::io_context& io_;
  std::unique_ptr<asio::posix::stream_descriptor> events_;
  std::function<void()> on_change_;
};

}  // namespace kiln::server
