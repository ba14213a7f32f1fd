// KILN_PROFILE=summary,roofline,trace=FILE,device: a profile of the whole program, without a line of its code. And
// tools that watch the program.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "kiln/wire/files.h"
#include "on_signal.h"
#include "ranges.h"
#include "recorder.h"

namespace kiln::client {
namespace {

struct Wish {
  bool summary = false, device_times = false, roofline = false;
  std::string trace_file;
  pid_t process = 0;
};

// Never destroyed: exit() reads it when statics are gone.
Wish& wish() {
  static Wish& wish = *new Wish;
  return wish;
}

Result<Wish> parse(std::string_view text) {
  Wish out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (word == "summary") {
      out.summary = true;
    } else if (word == "device") {
      out.device_times = true;
    } else if (word == "roofline") {
      out.summary = out.roofline = true;
    } else if (word.starts_with("trace=") && word.size() > 6) {
      out.trace_file = word.substr(6);
    } else {
      return invalid_argument("KILN_PROFILE: `" + std::string(word) +
                              "` is no part of it; there are `summary`, `roofline`, `trace=FILE` and `device`");
    }
  }
  if (!out.summary && out.trace_file.empty()) {
    return invalid_argument("KILN_PROFILE: neither `summary` nor `trace=FILE`: nothing would be shown");
  }
  return out;
}

void tell_so_far() {
  auto profile = profile::so_far();
  const std::string text = profile ? profile::summary(*profile) : "kiln: " + profile.error().message + "\n";
  std::fputs(text.c_str(), stderr);
}

void tell() {
  if (wish().process != ::getpid()) return;  // the child of a fork()
  show_no_more();
  auto profile = profile::stop();
  if (!profile) return;  // the program has stopped it
  if (wish().roofline) profile::find_roofs(*profile);
  if (wish().summary) std::fputs(profile::summary(*profile).c_str(), stderr);
  if (wish().trace_file.empty()) return;
  if (auto written = wire::write_text(wish().trace_file, profile::trace_json(*profile)); !written) {
    std::fprintf(stderr, "kiln: KILN_PROFILE: %s\n", written.error().message.c_str());
  }
}

void read_environment() {
  if (find_range_tools()) recorder::watchers.fetch_or(recorder::kRanges, std::memory_order_relaxed);
  const char* text = ::secure_getenv("KILN_PROFILE");
  if (text == nullptr || *text == '\0') return;
  auto wanted = parse(text);
  if (!wanted) {
    std::fprintf(stderr, "kiln: %s\n", wanted.error().message.c_str());
    return;
  }
  wanted->process = ::getpid();
  wish() = *wanted;
  if (!profile::start({.device_times = wish().device_times})) return;
  std::atexit(tell);
  if (wish().summary) show_on_signal(tell_so_far);
}

}  // namespace

void profile_as_environment_says() {
  static std::once_flag once;
  std::call_once(once, read_environment);
}

}  // namespace kiln::client
