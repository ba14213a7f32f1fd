// `kiln top`: the daemon's figures as a table that renews itself.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "commands.h"
#include "kiln/client/connection.h"
#include "printable.h"

namespace kiln::cli {
namespace {

using nlohmann::json;

double number(const json& stats, const char* name) {
  const auto found = stats.find(name);
  return found != stats.end() && found->is_number() ? found->get<double>() : 0;
}

double number_of(const json& stats, const char* name, const char* part) {
  const auto found = stats.find(name);
  return found != stats.end() && found->is_object() ? number(*found, part) : 0;
}

double hits(const json& stats, const char* tier) { return number_of(stats, "hits_total", tier); }

std::string bytes_text(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes < (1 << 20) ? "%.0f KiB" : "%.1f MiB",
                bytes < (1 << 20) ? bytes / 1024 : bytes / (1 << 20));
  return text;
}

std::string duration_text(double ms) {
  const auto seconds = static_cast<long long>(ms / 1000);
  char text[48];
  std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return text;
}

void print_rates(const json& now, const json& before, double seconds) {
  auto rate = [&](double a, double b) { return seconds > 0 ? (a - b) / seconds : 0; };
  const double memory = rate(hits(now, "memory"), hits(before, "memory")),
               disk = rate(hits(now, "disk"), hits(before, "disk")),
               remote = rate(hits(now, "remote"), hits(before, "remote"));
  const double misses = rate(number(now, "misses_total") + number(now, "get_misses_total"),
                             number(before, "misses_total") + number(before, "get_misses_total"));
  const double all = hits(now, "memory") + hits(now, "disk") + hits(now, "remote") + number(now, "misses_total");
  std::printf("a second   %.0f hits from memory, %.0f from disk, %.0f from remote, %.0f misses, %.0f compiles\n",
              memory, disk, remote, misses, rate(number(now, "compiles_total"), number(before, "compiles_total")));
  std::printf("since start  %.1f %% of %.0f requests were hits; %.0f shared another's compile\n",
              all > 0 ? 100 * (all - number(now, "misses_total")) / all : 0, all, number(now, "joins_total"));
}

// A field as text; the daemon has it from its clients.
std::string text(const json& object, const char* name) { return printable(object.value(name, "")); }

void print_jobs(const json& now) {
  const json list = now.value("job_list", json::array());
  std::printf("\n%-16s  %-8s %-11s %-20s %8s %10s\n", "job", "state", "class", "client", "waiters", "ms");
  for (const json& job : list) {
    std::printf("%-16s  %-8s %-11s %-20s %8.0f %10.0f\n", text(job, "key").substr(0, 16).c_str(),
                text(job, "state").c_str(), text(job, "class").c_str(), text(job, "client").substr(0, 20).c_str(),
                number(job, "waiters"), number(job, "ms"));
  }
  const auto more = number(now, "jobs") - static_cast<double>(list.size());
  if (more > 0) std::printf("and %.0f more\n", more);
}

void print_table(const json& now, const json& before, double seconds) {
  std::printf("kilnd %.0f  up %s  %.0f connections  %s resident%s\n", number(now, "pid"),
              duration_text(number(now, "uptime_ms")).c_str(), number(now, "connections"),
              bytes_text(number(now, "rss_bytes")).c_str(), number(now, "draining") != 0 ? "  draining" : "");
  print_rates(now, before, seconds);
  std::printf("cache      %.0f entries, %s in memory; %s on disk%s\n", number(now, "memory_entries"),
              bytes_text(number(now, "memory_bytes")).c_str(), bytes_text(number(now, "disk_bytes")).c_str(),
              number(now, "store_degraded") != 0 ? "; it cannot be written" : "");
  std::printf("queue      %.0f interactive, %.0f in background, %s; %.0f requests wait\n",
              number_of(now, "queue_depth", "interactive"), number_of(now, "queue_depth", "background"),
              bytes_text(number(now, "queue_bytes")).c_str(), number(now, "waiters"));
  std::printf("workers    %.0f busy of %.0f, at most %.0f; %.0f keys refused\n", number(now, "workers_busy"),
              number(now, "workers"), number(now, "workers_max"),
              number(now, "poisoned_keys") + number(now, "negative_keys"));
  print_jobs(now);
  std::printf("\n%10s  %-8s %-20s %10s\n", "pid", "state", "phase", "ms");
  for (const json& worker : now.value("worker_list", json::array())) {
    std::printf("%10.0f  %-8s %-20s %10.0f\n", number(worker, "pid"), text(worker, "state").c_str(),
                text(worker, "phase").c_str(), number(worker, "ms"));
  }
}

}  // namespace

Result<void> top(const TopFlags& flags) {
  using Clock = std::chrono::steady_clock;
  client::ConnectOptions options;
  options.client_name = "kiln top";
  options.autostart = options.exact_build = options.allow_pipe = false;
  auto daemon = client::Connection::open(options);
  if (!daemon) return daemon.error();
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  json before;
  Clock::time_point last = Clock::now();
  for (int shown = 0;; ++shown) {
    auto now = (*daemon)->stats();
    if (!now) return now.error();
    const double seconds = before.is_null() ? 0 : std::chrono::duration<double>(Clock::now() - last).count();
    last = Clock::now();
    std::printf("%s", is_terminal ? "\x1b[H\x1b[2J" : shown > 0 ? "\n" : "");
    print_table(*now, before.is_null() ? *now : before, seconds);
    if (std::fflush(stdout) != 0) return {};  // nobody reads it any more
    before = std::move(*now);
    if (flags.count > 0 && shown + 1 >= flags.count) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval));
  }
}

}  // namespace kiln::cli
