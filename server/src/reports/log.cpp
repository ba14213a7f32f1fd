// JSON log lines through spdlog.
#include "reports/log.h"

#include <fcntl.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "kiln/wire/own_file.h"
#include "reports/stderr_sink.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxFileSize = 4u << 20;
constexpr size_t kMaxFiles = 3;

// -errno where the file is not one to write to.
int look_at(const std::string& path) {
  const int fd = wire::open_own_file(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  if (fd >= 0) ::close(fd);
  return std::min(fd, 0);
}

spdlog::sink_ptr make_sink(const std::string& path, StderrSink::Lines lines) {
  try {
    if (!path.empty() && look_at(path) == 0)
      return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kMaxFileSize, kMaxFiles);
  } catch (const spdlog::spdlog_ex&) {
    // A full or read-only disk must not keep the daemon from serving.
  }
  return std::make_shared<StderrSink>(lines);
}

}  // namespace

Log::Log(const std::string& path, const std::string& level)
    : logger_(std::make_shared<spdlog::logger>("kilnd", make_sink(path, StderrSink::Lines::kOfPattern))) {
  // The message is the inside of an object; the pattern adds what every line has.
  logger_->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","pid":%P,%v})");
  logger_->set_level(spdlog::level::from_str(level));
  logger_->flush_on(spdlog::level::info);
  logger_->set_error_handler([](const std::string&) {});
  if (const int status = path.empty() ? 0 : look_at(path); status < 0) {
    warn("log_unusable", {{"file", path}, {"reason", wire::own_file_reason(-status)}});
  }
}

Log::~Log() = default;

void Log::write(int level, std::string_view event, JsonFields fields) {
  auto severity = static_cast<spdlog::level::level_enum>(level);
  if (!logger_->should_log(severity)) return;
  std::string text = fields_text({{"event", event}});
  if (const std::string rest = fields_text(fields); !rest.empty()) text += "," + rest;
  logger_->log(severity, text);
}

void Log::debug(std::string_view event, JsonFields fields) { write(spdlog::level::debug, event, fields); }
void Log::info(std::string_view event, JsonFields fields) { write(spdlog::level::info, event, fields); }
void Log::warn(std::string_view event, JsonFields fields) { write(spdlog::level::warn, event, fields); }
void Log::set_level(const std::string& level) { logger_->set_level(spdlog::level::from_str(level)); }
void Log::flush() { logger_->flush(); }

LineLog::LineLog(const std::string& path) {
  if (!path.empty() && look_at(path) < 0) return;
  logger_ = std::make_shared<spdlog::logger>("lines", make_sink(path, StderrSink::Lines::kWhole));
  logger_->set_pattern("%v");
  logger_->flush_on(spdlog::level::info);
  logger_->set_error_handler([](const std::string&) {});
}

void LineLog::write(std::string_view line) {
  if (logger_) logger_->log(spdlog::level::info, line);
}

}  // namespace kiln::server
