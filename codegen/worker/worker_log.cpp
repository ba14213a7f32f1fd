// A line is one write to a file opened for appending, so that lines of several processes do not mix.
#include "worker_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

#include "kiln/wire/json.h"
#include "kiln/wire/own_file.h"

namespace kiln::worker {
namespace {

constexpr off_t kMaxFileSize = 4 << 20;

wire::UniqueFd append_to(const char* path) {
  return wire::UniqueFd(wire::open_own_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND));
}

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

WorkerLog::WorkerLog(const char* path) {
  if (!path) return;
  if (std::strcmp(path, "-") == 0) {
    file_ = wire::UniqueFd(::dup(STDERR_FILENO));
    return;
  }
  file_ = append_to(path);
  struct stat mine{}, there{};
  if (!file_ || ::fstat(file_.get(), &mine) != 0 || mine.st_size <= kMaxFileSize) return;
  // Unless another worker has just done so.
  if (::stat(path, &there) == 0 && there.st_ino == mine.st_ino) {
    ::rename(path, (std::string(path) + ".1").c_str());
  }
  file_ = append_to(path);
}

void WorkerLog::write(std::string_view event, const nlohmann::json& fields) const {
  if (!file_) return;
  const std::string rest = wire::dump_ascii(fields);
  const std::string line = "{\"time\":\"" + timestamp() +
                           "\",\"level\":\"info\",\"pid\":" + std::to_string(::getpid()) +
                           ",\"event\":" + wire::dump_ascii(nlohmann::json(event)) + "," + rest.substr(1) + "\n";
  (void)!::write(file_.get(), line.data(), line.size());
}

}  // namespace kiln::worker
