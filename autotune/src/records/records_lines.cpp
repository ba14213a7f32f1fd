#include "records/records_lines.h"

#include <algorithm>

#include "kiln/autotune/runner_protocol.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "kiln tuning records";
constexpr int kVersion = 1;

// Reads the fields of one line. The first that is missing or of a wrong type is remembered.
class Line {
 public:
  Line(const json& object, std::string place) : object_(object), place_(std::move(place)) {}

  std::string text(const char* name, bool required = false) {
    const json* value = find(name, required, &json::is_string, "a text");
    return value ? value->get<std::string>() : "";
  }
  double real(const char* name) {
    const json* value = find(name, false, &json::is_number, "a number");
    return value ? value->get<double>() : 0;
  }
  int64_t integer(const char* name) {
    const json* value = find(name, false, &json::is_number_integer, "an integer");
    return value ? value->get<int64_t>() : 0;
  }
  bool flag(const char* name) {
    const json* value = find(name, false, &json::is_boolean, "true or false");
    return value && value->get<bool>();
  }
  json object(const char* name, bool required = false) {
    const json* value = find(name, required, &json::is_object, "an object");
    return value ? *value : json::object();
  }
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = place_ + ": " + what;
  }
  const std::string& problem() const { return problem_; }

 private:
  const json* find(const char* name, bool required, bool (json::*is)() const noexcept, const char* expected) {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      if (required) fail("`" + std::string(name) + "` is missing");
      return nullptr;
    }
    if ((*found.*is)()) return &*found;
    fail("`" + std::string(name) + "` must be " + expected);
    return nullptr;
  }

  const json& object_;
  std::string place_, problem_;
};

Record read_record(Line& line) {
  Record out;
  out.key = {line.text("kernel", true), line.text("bucket", true), line.text("target", true),
             line.text("hardware", true), line.text("builder", true)};
  const json config = line.object("config", true);
  for (const auto& [name, value] : config.items()) {
    if (value.is_number_integer())
      out.config.emplace(name, value.get<int64_t>());
    else
      line.fail("`config`: `" + name + "` must be an integer");
  }
  if (const std::string name = line.text("failure"); !name.empty()) {
    const auto failure = parse_failure(name);
    if (failure)
      out.failure = *failure;
    else
      line.fail("`failure`: " + failure.error().message);
  }
  out.kernel_name = line.text("kernel_name");
  out.message = line.text("message");
  out.median_us = line.real("median_us");
  out.low_us = line.real("low_us");
  out.high_us = line.real("high_us");
  out.samples = static_cast<int>(std::clamp<int64_t>(line.integer("samples"), 0, INT32_MAX));
  out.is_default = line.flag("is_default");
  out.is_best = line.flag("is_best");
  out.predicted_us = line.real("predicted_us");
  out.figures = line.object("figures");
  out.created_ms = line.integer("created_ms");
  return out;
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string header_line() { return dump({{"format", kFormat}, {"version", kVersion}}); }

std::string to_line(const Record& record) {
  json out = {{"kernel", record.key.kernel},         {"bucket", record.key.bucket},
              {"target", record.key.target},         {"hardware", record.key.hardware},
              {"builder", record.key.builder},       {"config", record.config},
              {"kernel_name", record.kernel_name},   {"failure", to_string(record.failure)},
              {"median_us", record.median_us},       {"low_us", record.low_us},
              {"high_us", record.high_us},           {"samples", record.samples},
              {"is_default", record.is_default},     {"is_best", record.is_best},
              {"predicted_us", record.predicted_us}, {"created_ms", record.created_ms}};
  if (!record.message.empty()) out["message"] = record.message;
  if (record.figures.is_object() && !record.figures.empty()) out["figures"] = record.figures;
  return dump(out);
}

std::string to_line(const MachineRecord& machine) {
  return dump({{"hardware", machine.hardware}, {"builder", machine.builder}, {"machine", machine.machine}});
}

Result<RecordLines> parse_record_lines(std::string_view text, const std::string& file) {
  RecordLines out;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const bool complete = end != std::string_view::npos;
    const std::string_view words = text.substr(0, end);
    text.remove_prefix(complete ? end + 1 : text.size());
    const std::string place = file + ":" + std::to_string(++number);
    if (words.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const json object = json::parse(words, nullptr, false);
    if (object.is_discarded() && !complete) {
      out.note = place + ": the last line was cut off and is left out";
      break;
    }
    if (!object.is_object()) return invalid_argument(place + ": not a JSON object");
    Line line(object, place);
    if (object.contains("format")) {
      if (line.text("format") != kFormat) line.fail("`format` must be \"" + std::string(kFormat) + "\"");
      if (line.integer("version") > kVersion) line.fail("written by a newer Kiln, whose format this one does not know");
    } else if (object.contains("machine")) {
      out.machines.push_back({line.text("hardware", true), line.text("builder", true), line.object("machine")});
    } else {
      out.records.push_back(read_record(line));
    }
    if (!line.problem().empty()) return invalid_argument(line.problem());
  }
  return out;
}

}  // namespace kiln::autotune
