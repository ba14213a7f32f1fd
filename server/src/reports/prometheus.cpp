// Names, types and labels of series.
#include "reports/prometheus.h"

#include <map>

namespace kiln::server {
namespace {

// What the names within an object of figures say.
const std::map<std::string, std::string>& labels() {
  static const std::map<std::string, std::string> kLabels = {
      {"hits_total", "tier"},          {"worker_deaths_total", "cause"}, {"rejected_total", "reason"},
      {"errors_total", "code"},        {"queue_wait_ms_total", "class"}, {"queued_total", "class"},
      {"remote_errors_total", "kind"}, {"queue_depth", "class"}};
  return kLabels;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void add_type(std::string& out, const std::string& name, const std::string& type) {
  out += "# TYPE kiln_" + name + " " + type + "\n";
}

// {"cpu": {"le_1": 3, …, "more": 0, "sum": 17}}: buckets of a histogram, counted up as the format wants it.
void add_histogram(std::string& out, const std::string& name, const nlohmann::json& by_target) {
  add_type(out, name, "histogram");
  for (const auto& [target, histogram] : by_target.items()) {
    const std::string label = "target=\"" + escaped(target) + "\"";
    std::map<uint64_t, uint64_t> buckets;
    uint64_t count = 0;
    for (const auto& [edge, value] : histogram.items()) {
      if (edge.starts_with("le_")) buckets[std::stoull(edge.substr(3))] = value;
    }
    for (const auto& [edge, value] : buckets) {
      count += value;
      out +=
          "kiln_" + name + "_bucket{" + label + ",le=\"" + std::to_string(edge) + "\"} " + std::to_string(count) + "\n";
    }
    count += histogram.value("more", uint64_t{0});
    out += "kiln_" + name + "_bucket{" + label + ",le=\"+Inf\"} " + std::to_string(count) + "\n";
    out += "kiln_" + name + "_sum{" + label + "} " + std::to_string(histogram.value("sum", 0.0)) + "\n";
    out += "kiln_" + name + "_count{" + label + "} " + std::to_string(count) + "\n";
  }
}

}  // namespace

std::string prometheus_text(const nlohmann::json& stats) {
  std::string out;
  for (const auto& [name, value] : stats.items()) {
    const std::string type = name.ends_with("_total") ? "counter" : "gauge";
    if (value.is_number()) {
      add_type(out, name, type);
      out += "kiln_" + name + " " + value.dump() + "\n";
    } else if (name == "compile_ms") {
      add_histogram(out, name, value);
    } else if (auto label = labels().find(name); label != labels().end()) {
      add_type(out, name, type);
      for (const auto& [key, inner] : value.items()) {
        out += "kiln_" + name + "{" + label->second + "=\"" + escaped(key) + "\"} " + inner.dump() + "\n";
      }
    }
  }
  return out;
}

}  // namespace kiln::server
