// `kiln top`: the daemon's figures as a table that renews itself.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "answers.h"
#include "commands.h"
#include "kiln/client/connection.h"
#include "kiln/wire/json.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

using nlohmann::json;

// A daemon's answer, or an object in it. The first field of another type than it must have is remembered.
class Figures {
 public:
  explicit Figures(const json& object) : fields_(object) {}

  double number(const char* name) { return fields_.real(name); }
  double number_of(const char* name, const char* part) {
    Figures inner(fields_.object(name));
    const double out = inner.number(part);
    take_failure_of(inner);
    return out;
  }
  double hits(const char* tier) { return number_of("hits_total", tier); }
  const json& objects(const char* name) { return fields_.objects(name); }
  // The daemon has it from its clients.
  std::string text(const char* name) { return wire::printable(fields_.text(name)); }

  void take_failure_of(const Figures& inner) {
    if (!failure_ && !inner.fields_.ok()) failure_ = inner.fields_.error();
  }
  Result<void> failure() const {
    if (failure_) return *failure_;
    return fields_.ok() ? Result<void>() : fields_.error();
  }

 private:
  wire::Fields fields_;
  std::optional<Error> failure_;
};

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

void print_rates(Figures& now, Figures& before, double seconds) {
  auto rate = [&](double a, double b) { return seconds > 0 ? (a - b) / seconds : 0; };
  const double memory = rate(now.hits("memory"), before.hits("memory")),
               disk = rate(now.hits("disk"), before.hits("disk")),
               remote = rate(now.hits("remote"), before.hits("remote"));
  const double misses = rate(now.number("misses_total") + now.number("get_misses_total"),
                             before.number("misses_total") + before.number("get_misses_total"));
  const double all = now.hits("memory") + now.hits("disk") + now.hits("remote") + now.number("misses_total");
  std::printf("a second   %.0f hits from memory, %.0f from disk, %.0f from remote, %.0f misses, %.0f compiles\n",
              memory, disk, remote, misses, rate(now.number("compiles_total"), before.number("compiles_total")));
  std::printf("since start  %.1f %% of %.0f requests were hits; %.0f shared another's compile\n",
              all > 0 ? 100 * (all - now.number("misses_total")) / all : 0, all, now.number("joins_total"));
}

void print_jobs(Figures& now) {
  const json& list = now.objects("job_list");
  std::printf("\n%-16s  %-8s %-11s %-20s %8s %10s\n", "job", "state", "class", "client", "waiters", "ms");
  for (const json& one : list) {
    Figures job(one);
    std::printf("%-16s  %-8s %-11s %-20s %8.0f %10.0f\n", job.text("key").substr(0, 16).c_str(),
                job.text("state").c_str(), job.text("class").c_str(), job.text("client").substr(0, 20).c_str(),
                job.number("waiters"), job.number("ms"));
    now.take_failure_of(job);
  }
  const auto more = now.number("jobs") - static_cast<double>(list.size());
  if (more > 0) std::printf("and %.0f more\n", more);
}

void print_workers(Figures& now) {
  std::printf("\n%10s  %-8s %-20s %10s\n", "pid", "state", "phase", "ms");
  for (const json& one : now.objects("worker_list")) {
    Figures worker(one);
    std::printf("%10.0f  %-8s %-20s %10.0f\n", worker.number("pid"), worker.text("state").c_str(),
                worker.text("phase").c_str(), worker.number("ms"));
    now.take_failure_of(worker);
  }
}

void print_table(Figures& now, Figures& before, double seconds) {
  std::printf("kilnd %.0f  up %s  %.0f connections  %s resident%s\n", now.number("pid"),
              duration_text(now.number("uptime_ms")).c_str(), now.number("connections"),
              bytes_text(now.number("rss_bytes")).c_str(), now.number("draining") != 0 ? "  draining" : "");
  print_rates(now, before, seconds);
  std::printf("cache      %.0f entries, %s in memory; %s on disk%s\n", now.number("memory_entries"),
              bytes_text(now.number("memory_bytes")).c_str(), bytes_text(now.number("disk_bytes")).c_str(),
              now.number("store_degraded") != 0 ? "; it cannot be written" : "");
  std::printf("queue      %.0f interactive, %.0f in background, %s; %.0f requests wait\n",
              now.number_of("queue_depth", "interactive"), now.number_of("queue_depth", "background"),
              bytes_text(now.number("queue_bytes")).c_str(), now.number("waiters"));
  std::printf("workers    %.0f busy of %.0f, at most %.0f; %.0f keys refused\n", now.number("workers_busy"),
              now.number("workers"), now.number("workers_max"),
              now.number("poisoned_keys") + now.number("negative_keys"));
  print_jobs(now);
  print_workers(now);
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
    const auto text = (*daemon)->stats();
    if (!text) return text.error();
    auto now = wire::parse_object(*text);
    if (!now) return bad_answer(now.error());
    const double seconds = before.is_null() ? 0 : std::chrono::duration<double>(Clock::now() - last).count();
    last = Clock::now();
    std::printf("%s", is_terminal ? "\x1b[H\x1b[2J" : shown > 0 ? "\n" : "");
    Figures figures(*now), earlier(before.is_null() ? *now : before);
    print_table(figures, earlier, seconds);
    if (std::fflush(stdout) != 0) return {};  // nobody reads it any more
    if (auto understood = figures.failure(); !understood) return bad_answer(understood.error());
    before = std::move(*now);
    if (flags.count > 0 && shown + 1 >= flags.count) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval));
  }
}

}  // namespace kiln::cli
