#include "worker_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "kiln/wire/json.h"

namespace kiln::worker {
namespace {

constexpr size_t kMaxText = 512;  // of a field

std::string timestamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char day[32], out[64];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(out, sizeof out, "%s.%03ld+00:00", day, now.tv_nsec / 1'000'000);
  return out;
}

}  // namespace

void WorkerLog::write(std::string_view event, nlohmann::json fields) const {
  if (!wanted_) return;
  for (auto& field : fields) {
    if (auto* text = field.get_ptr<std::string*>()) text->resize(std::min(text->size(), kMaxText));
  }
  const std::string rest = wire::dump_ascii(fields);
  const std::string line = "{\"time\":\"" + timestamp() +
                           "\",\"level\":\"info\",\"pid\":" + std::to_string(::getpid()) +
                           ",\"event\":" + wire::dump_ascii(nlohmann::json(event)) + "," + rest.substr(1) + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kiln::worker
