// One report after the other.
#include "reports/reports.h"

#include <new>
#include <span>

#include "cache/thread_work.h"
#include "kiln/wire/json.h"
#include "reports/prometheus.h"

namespace kiln::server {

void Reports::ask(uint64_t owner, WantedReport wanted, Done done) {
  asked_.take(owner, 1);
  try {
    line_.push({owner, wanted, std::move(done)});
  } catch (const std::bad_alloc&) {
    asked_.give_back(owner, 1);
    throw;
  }
  next();
}

void Reports::next() {
  if (line_.empty() || busy_) return;
  asio::post(io_, [this] { make(); });
  busy_ = true;
}

// What may be copied quickly is; the rest is done where the text is made.
Reports::Writer Reports::gather(WantedReport wanted) const {
  if (wanted.format == WantedReport::kTrace) {
    return [moment = history_.moment(), last = wanted.last] { return trace_text(moment, last); };
  }
  // Taken apart first, for it may end on the other thread, where its destructor may find no memory (memory_reserve.h).
  const std::shared_ptr<nlohmann::json> figures(new nlohmann::json(stats_()), [](nlohmann::json* value) {
    wire::take_apart(*value);
    delete value;
  });
  if (wanted.format == WantedReport::kPrometheus) return [figures] { return prometheus_text(*figures); };
  return [figures] { return wire::dump(*figures); };
}

void Reports::make() {
  std::vector<Asked> asked = line_.take();
  try {
    write(gather(asked.front().wanted), asked);
  } catch (const std::bad_alloc&) {
    answer(nullptr, std::move(asked));
  }
}

void Reports::write(Writer writer, const std::vector<Asked>& asked) {
  post_work(
      writer_, io_,
      [writer = std::move(writer)]() -> SharedBytes {
        const std::string text = writer();
        const auto view = std::as_bytes(std::span(text));
        return std::make_shared<const Bytes>(view.begin(), view.end());
      },
      [this, asked](const SharedBytes& bytes) { answer(bytes, asked); });
}

// One after the other, as they are gathered: a trace has megabytes, and each of them goes into a socket.
void Reports::answer(const SharedBytes& text, std::vector<Asked> asked) {
  if (asked.empty()) {
    busy_ = false;
    return next();
  }
  const Asked one = std::move(asked.back());
  asked.pop_back();
  asked_.give_back(one.owner, 1);
  asio::post(io_, [this, text, asked = std::move(asked)]() mutable { answer(text, std::move(asked)); });
  one.done(text);
}

}  // namespace kiln::server
