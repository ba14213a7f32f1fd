// The figures and traces that people ask for, as text. They are gathered on the io thread, one at a time and with a
// turn for everybody else in between, and written on a thread of their own; who asks for the same meanwhile gets the
// same.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "reports/history.h"
#include "reports/report_line.h"
#include "scheduling/shares.h"

namespace kiln::server {

class Reports {
 public:
  using Stats = std::function<nlohmann::json()>;
  // On the io thread; null where there is no memory for it.
  using Done = std::function<void(SharedBytes)>;
  // Of a process, that are made, or wait to be made, at once.
  static constexpr uint64_t kMostOfAProcess = 8;

  Reports(asio::io_context& io, Stats stats, const History& history)
      : io_(io), stats_(std::move(stats)), history_(history), writer_(1) {}
  ~Reports() { writer_.join(); }

  // For one more of this process.
  bool has_room(uint64_t owner) const { return asked_.held(owner) < kMostOfAProcess; }
  // As things are after the call.
  void ask(uint64_t owner, WantedReport wanted, Done done);
  bool busy() const { return busy_; }

 private:
  using Writer = std::function<std::string()>;
  using Asked = ReportLine::Asked;

  void next();
  Writer gather(WantedReport wanted) const;
  void make();
  void write(Writer writer, const std::vector<Asked>& asked);
  void answer(const SharedBytes& text, std::vector<Asked> asked);

  asio::io_context& io_;
  Stats stats_;
  const History& history_;
  ReportLine line_;
  Shares asked_;
  bool busy_ = false;
  asio::thread_pool writer_;
};

}  // namespace kiln::server
