// The figures and traces that people ask for, as text. They are gathered on the io thread, one at a time and with a
// turn for everybody else in between, and written on a thread of their own; who asks for the same meanwhile gets the
// same.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>

#include "connections/frame_socket.h"
#include "reports/history.h"

namespace kiln::server {

class Reports {
 public:
  enum class Format { kJson, kPrometheus, kTrace };
  using Stats = std::function<nlohmann::json()>;
  // On the io thread; null where there is no memory for it.
  using Done = std::function<void(SharedBytes)>;

  Reports(asio::io_context& io, Stats stats, const History& history)
      : io_(io), stats_(std::move(stats)), history_(history), writer_(1) {}
  ~Reports() { writer_.join(); }

  // As things are after the call; `last` is of traces (History::trace).
  void ask(Format format, size_t last, Done done);
  bool busy() const { return busy_; }

 private:
  struct Wanted {
    Format format = Format::kJson;
    size_t last = 0;
    Done done;
  };
  using Writer = std::function<std::string()>;

  void next();
  std::vector<Done> take_alike();
  Writer gather(const Wanted& wanted) const;
  void make();
  void answer(const SharedBytes& text, std::vector<Done> asked);

  asio::io_context& io_;
  Stats stats_;
  const History& history_;
  std::deque<Wanted> waiting_;
  bool busy_ = false;
  asio::thread_pool writer_;
};

}  // namespace kiln::server
