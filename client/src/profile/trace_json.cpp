// A profile as the Trace Event Format: one process for the host, with a track a thread, and one for each device, with a
// track a stream.
#include <map>
#include <nlohmann/json.hpp>

#include "kiln/client/profile.h"

namespace kiln::profile {
namespace {

using nlohmann::json;

constexpr int kHost = 0;

class Writer {
 public:
  explicit Writer(const Profile& profile) : profile_(profile) {}

  std::string text() {
    name_process(kHost, "host");
    for (const Span& span : profile_.spans) add(span);
    // Names come from files that users write: what is no UTF-8 is replaced.
    return json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}}.dump(-1, ' ', false,
                                                                                     json::error_handler_t::replace);
  }

 private:
  // The format's microseconds, from the profile's beginning.
  double at(int64_t ns) const { return static_cast<double>(ns - profile_.begin_ns) / 1e3; }

  void name_process(int process, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"pid", process}, {"tid", 0}, {"name", "process_name"}, {"args", {{"name", name}}}});
  }

  int process_of(const Span& span) {
    if (!span.on_device) return kHost;
    const auto [place, is_new] = devices_.try_emplace(span.device, static_cast<int>(devices_.size()) + 1);
    if (is_new) name_process(place->second, span.device);
    return place->second;
  }

  // Streams' handles are addresses: tracks of a device are counted.
  uint64_t track_of(const Span& span, int process) {
    if (!span.on_device) return span.track;
    const auto [place, is_new] = streams_.try_emplace({process, span.track}, streams_.size() + 1);
    if (is_new) {
      const std::string name = span.track == 0 ? "default stream" : "stream " + std::to_string(place->second);
      events_.push_back(
          {{"ph", "M"}, {"pid", process}, {"tid", place->second}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    }
    return place->second;
  }

  void add(const Span& span) {
    const int process = process_of(span);
    const uint64_t track = track_of(span, process);
    json event = {{"pid", process}, {"tid", track}, {"ts", at(span.begin_ns)}, {"cat", kind_name(span.kind)}};
    event["name"] = span.name.empty() ? std::string(kind_name(span.kind)) : span.name;
    json args = json::object();
    if (!span.device.empty()) args["device"] = span.device;
    if (!span.detail.empty()) args["why"] = span.detail;
    if (span.bytes > 0) args["bytes"] = span.bytes;
    if (span.grid[0] > 0) args["grid"] = span.grid;
    event["args"] = std::move(args);
    if (span.kind == Kind::kFallback) {
      event["ph"] = "i";
      event["s"] = "t";
    } else {
      event["ph"] = "X";
      event["dur"] = static_cast<double>(span.end_ns - span.begin_ns) / 1e3;
    }
    events_.push_back(std::move(event));
    if (span.flow > 0) add_flow(span, process, track);
  }

  // An arrow from the launch on the host to when the device does it.
  void add_flow(const Span& span, int process, uint64_t track) {
    json arrow = {{"ph", span.on_device ? "f" : "s"}, {"id", span.flow},  {"pid", process}, {"tid", track},
                  {"ts", at(span.begin_ns)},          {"name", "launch"}, {"cat", "launch"}};
    if (span.on_device) arrow["bp"] = "e";
    events_.push_back(std::move(arrow));
  }

  const Profile& profile_;
  json events_ = json::array();
  std::map<std::string, int> devices_;
  std::map<std::pair<int, uint64_t>, uint64_t> streams_;
};

}  // namespace

std::string trace_json(const Profile& profile) { return Writer(profile).text(); }

}  // namespace kiln::profile
