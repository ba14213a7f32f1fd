// One report after the other.
#include "reports/reports.h"

#include <algorithm>
#include <new>

#include "cache/thread_work.h"
#include "kiln/wire/json.h"
#include "reports/prometheus.h"

namespace kiln::server {

void Reports::ask(Format format, size_t last, Done done) {
  waiting_.push_back({format, last, std::move(done)});
  next();
}

void Reports::next() {
  if (waiting_.empty() || std::exchange(busy_, true)) return;
  asio::post(io_, [this] { make(); });
}

// Those that want what the first one wants.
std::vector<Reports::Done> Reports::take_alike() {
  std::vector<Done> out;
  const Format format = waiting_.front().format;
  const size_t last = waiting_.front().last;
  std::erase_if(waiting_, [&](Wanted& wanted) {
    if (wanted.format != format || wanted.last != last) return false;
    out.push_back(std::move(wanted.done));
    return true;
  });
  return out;
}

// What may be copied quickly is; the rest is done where the text is made.
Reports::Writer Reports::gather(const Wanted& wanted) const {
  if (wanted.format == Format::kTrace) {
    return [moment = history_.moment(), last = wanted.last] { return wire::dump(trace_of(moment, last)); };
  }
  auto figures = std::make_shared<const nlohmann::json>(stats_());
  if (wanted.format == Format::kPrometheus) return [figures] { return prometheus_text(*figures); };
  return [figures] { return wire::dump(*figures); };
}

void Reports::make() {
  Writer write;
  try {
    write = gather(waiting_.front());
  } catch (const std::bad_alloc&) {
    write = []() -> std::string { throw std::bad_alloc(); };
  }
  post_work(writer_, [this, write = std::move(write), asked = take_alike()] {
    SharedBytes bytes;
    try {
      const std::string text = write();
      const auto view = std::as_bytes(std::span(text));
      bytes = std::make_shared<const Bytes>(view.begin(), view.end());
    } catch (const std::bad_alloc&) {
    }
    asio::post(io_, [this, bytes, asked] { answer(bytes, asked); });
  });
}

// One after the other, as they are gathered: a trace has megabytes, and each of them goes into a socket.
void Reports::answer(const SharedBytes& text, std::vector<Done> asked) {
  if (asked.empty()) {
    busy_ = false;
    return next();
  }
  const Done done = std::move(asked.back());
  asked.pop_back();
  asio::post(io_, [this, text, asked = std::move(asked)]() mutable { answer(text, std::move(asked)); });
  done(text);
}

}  // namespace kiln::server
