// Counters as JSON.
#include "reports/metrics.h"

#include <unistd.h>

#include <cstdio>

#include "connections/kept_text.h"

namespace kiln::server {

namespace {

constexpr size_t kMostKinds = 16;  // a worker says which

}  // namespace

void Metrics::record_compile(const std::string& kind, std::chrono::steady_clock::duration took) {
  ++compiles;
  const std::string name = cut(kind, kMostOfAPhase);
  const bool known = compile_ms.contains(name) || compile_ms.size() < kMostKinds;
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  Histogram& histogram = compile_ms[known ? name : "other"];
  histogram.sum += ms;
  size_t bucket = 0;
  for (double edge = 1; bucket + 1 < histogram.buckets.size() && ms > edge; edge *= 4) ++bucket;
  ++histogram.buckets[bucket];
}

nlohmann::json Metrics::to_json() const {
  nlohmann::json by_code = nlohmann::json::object();
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i]) by_code[std::string(to_string(static_cast<ErrorCode>(i)))] = errors[i];
  }
  nlohmann::json histograms = nlohmann::json::object();
  for (const auto& [kind, histogram] : compile_ms) {
    nlohmann::json& out = histograms[kind];
    out["sum"] = histogram.sum;
    int64_t edge = 1;
    for (size_t i = 0; i < histogram.buckets.size(); ++i, edge *= 4) {
      out[i + 1 < histogram.buckets.size() ? "le_" + std::to_string(edge) : "more"] = histogram.buckets[i];
    }
  }
  return {{"hits_total", {{"memory", hits_memory}, {"disk", hits_disk}, {"remote", hits_remote}}},
          {"misses_total", misses},
          {"get_misses_total", get_misses},
          {"compiles_total", compiles},
          {"joins_total", joins},
          {"retries_total", retries},
          {"negative_hits_total", negative_hits},
          {"poison_hits_total", poison_hits},
          {"verified_total", verified},
          {"verify_skipped_total", verify_skipped},
          {"verify_mismatches_total", verify_mismatches},
          {"queue_rejected_total", queue_rejected},
          {"jobs_cancelled_total", jobs_cancelled},
          {"finished_late_total", finished_late},
          {"tune_requests_total", tune_requests},
          {"tuner_starts_total", tuner_starts},
          {"tuner_deaths_total", tuner_deaths},
          {"workers_spawned_total", workers_spawned},
          {"workers_recycled_total", workers_recycled},
          {"zygote_restarts_total", zygote_restarts},
          {"worker_deaths_total", worker_deaths},
          {"memory_shortages_total", memory_shortages},
          {"connections_total", connections},
          {"rejected_total", rejected},
          {"errors_total", by_code},
          {"queued_total", {{"interactive", queued_interactive}, {"background", queued_background}}},
          {"queue_wait_ms_total", {{"interactive", wait_ms_interactive}, {"background", wait_ms_background}}},
          {"compile_ms", histograms}};
}

uint64_t resident_bytes() {
  unsigned long long total = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%llu %llu", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace kiln::server
