#include "serve.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/dsl/binary.h"
#include "kiln/wire/crash_report.h"
#include "session.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr int kDeviceLost = 3;
constexpr int kMostRounds = 1000;
constexpr uint64_t kJob = 1;  // for reports of crashes; there is one at a time

class Server {
 public:
  Server(MeasuredDevice& device, LockOptions lock, int out)
      : session_(device), lock_options_(std::move(lock)), out_(out) {}

  bool device_lost() const { return device_lost_; }

  Result<void> answer(const std::string& line) {
    const json request = json::parse(line, nullptr, false);
    if (!request.is_object()) return write_line(out_, failed(0, invalid_argument("this line is no JSON object")));
    id_ = request.value("id", json(0));
    Result<json> reply = carry_out(request);
    wire::note_ended(kJob);
    if (!reply) return write_line(out_, failed(id_, reply.error()));
    json message = {{"id", id_}, {"reply", std::move(*reply)}};
    if (device_lost_) message["device_lost"] = true;
    return write_line(out_, message);
  }

 private:
  static json failed(const json& id, const Error& error) {
    return {{"id", id}, {"error", {{"code", to_string(error.code)}, {"message", error.message}}}};
  }

  Result<json> carry_out(const json& request) {
    const json name = request.value("request", json());
    if (name == "begin") return begin(request);
    if (name == "load") return load(request);
    if (name == "measure") return measure(request);
    if (name == "unload") {
      auto id = candidate(request.value("candidate", json()));
      if (!id) return id.error();
      session_.unload(*id);
      return json::object();
    }
    return invalid_argument("unknown request " + name.dump());
  }

  static Result<CandidateId> candidate(const json& value) {
    if (value.is_number_unsigned()) return value.get<CandidateId>();
    return invalid_argument("a candidate is an unsigned number");
  }
  static Result<std::string> text(const json& request, const char* field) {
    const json value = request.value(field, json());
    if (value.is_string()) return value.get<std::string>();
    return invalid_argument(std::string("`") + field + "` must be text");
  }

  Result<DeviceLock> lock() {
    return lock_device(lock_options_, [this] { (void)write_line(out_, {{"id", id_}, {"waiting", true}}); });
  }
  void announce(CandidateId id) {
    wire::note_ended(kJob);
    wire::note_running(kJob, "candidate " + std::to_string(id) + " of kernel " + session_.kernel_name());
    (void)write_line(out_, {{"id", id_}, {"running", id}});
  }

  Result<json> begin(const json& request) {
    auto path = text(request, "kernel");
    auto cache_name = text(request, "cache");
    if (!path || !cache_name) return (path ? cache_name : path).error();
    auto cache = parse_cache(*cache_name);
    if (!cache) return cache.error();
    auto workload = workload_from_json(request.value("workload", json()));
    if (!workload) return workload.error();
    auto bytes = read_file(*path);
    if (!bytes) return bytes.error();
    auto kernel = dsl::decode_kernel(*bytes);
    if (!kernel) return kernel.error();
    auto held = lock();
    if (!held) return held.error();
    if (auto done = session_.begin(std::move(*kernel), *workload, *cache); !done) return done.error();
    return json::object();
  }

  Result<json> load(const json& request) {
    auto id = candidate(request.value("candidate", json()));
    if (!id) return id.error();
    auto path = text(request, "artifact");
    if (!path) return path.error();
    auto artifact = read_artifact(*path);
    if (!artifact) return artifact.error();
    auto held = lock();
    if (!held) return held.error();
    announce(*id);
    auto outcome = session_.load(*id, *artifact);
    if (!outcome) return outcome.error();
    device_lost_ = outcome->device_lost;
    json reply = status_to_json(outcome->status);
    reply["device_us"] = newly_worked_us();
    return reply;
  }

  Result<std::vector<CandidateId>> candidates(const json& values) {
    if (!values.is_array() || values.empty()) return invalid_argument("`candidates` must be a list");
    std::vector<CandidateId> out;
    for (const json& value : values) {
      auto id = candidate(value);
      if (!id) return id.error();
      out.push_back(*id);
    }
    return out;
  }

  // Each has its turn after the other, some times together, in an order that rotates.
  Result<json> measure(const json& request) {
    auto ids = candidates(request.value("candidates", json()));
    if (!ids) return ids.error();
    const json wish = request.value("rounds", json(1));
    const int rounds = wish.is_number_integer() ? std::clamp(wish.get<int>(), 1, kMostRounds) : 1;
    auto held = lock();
    if (!held) return held.error();
    std::vector<json> times(static_cast<size_t>(rounds), std::vector<json>(ids->size()));
    std::map<CandidateId, CandidateStatus> failed;
    int done = 0;
    for (size_t turn = 0; done < rounds && !device_lost_; ++turn) {
      const int together = std::min(session_.times_together(), rounds - done);
      for (size_t i = 0; i < ids->size() && !device_lost_; ++i) {
        const size_t at = (i + turn) % ids->size();
        const CandidateId id = (*ids)[at];
        if (failed.contains(id)) continue;
        announce(id);
        auto outcome = session_.measure(id, together);
        if (!outcome) return outcome.error();
        device_lost_ = outcome->device_lost;
        if (outcome->status.failure != Failure::kNone) failed[id] = outcome->status;
        for (size_t r = 0; r < outcome->us.size(); ++r) times[static_cast<size_t>(done) + r][at] = outcome->us[r];
      }
      done += together;
    }
    session_.settle();
    json failures = json::array();
    for (CandidateId id : *ids) {
      if (const std::string text = session_.difference(id); !text.empty()) failed[id] = {Failure::kWrongResult, text};
    }
    for (const auto& [id, status] : failed) {
      json failure = status_to_json(status);
      failure["candidate"] = id;
      failures.push_back(std::move(failure));
    }
    times.resize(static_cast<size_t>(done));
    json us = request.contains("rounds") ? json(times) : times.front();
    return json{{"us", std::move(us)}, {"failures", std::move(failures)}, {"device_us", newly_worked_us()}};
  }

  // Since it was told last.
  double newly_worked_us() { return session_.worked_us() - std::exchange(told_us_, session_.worked_us()); }

  Session session_;
  const LockOptions lock_options_;
  const int out_;
  json id_ = 0;
  bool device_lost_ = false;
  double told_us_ = 0;
};

}  // namespace

int serve(MeasuredDevice& device, const LockOptions& lock, int in, int out) {
  if (!write_line(out, hello_of(device.info()))) return 1;
  Server server(device, lock, out);
  LineReader lines(in);
  while (!server.device_lost()) {
    auto line = lines.read();
    if (!line) return line.error().code == ErrorCode::kUnavailable ? 0 : 1;
    if (!server.answer(*line)) return 1;
  }
  return kDeviceLost;
}

}  // namespace kiln::autotune
