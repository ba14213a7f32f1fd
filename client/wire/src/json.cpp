// Bounded JSON parsing and field access.
#include "kiln/wire/json.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace kiln::wire {
namespace {

// Brackets outside strings. Looking before parsing keeps a hostile text from building anything at all.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Notes a field that an object has twice: which of them counts would depend on who reads it.
class Repetitions {
 public:
  // In the form of the parser's callback.
  bool operator()(int, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(value.get_ref<const std::string&>()).second && !found_) {
      found_ = value.get_ref<const std::string&>();
    }
    return true;
  }
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> found_;
};

}  // namespace

Result<nlohmann::json> parse_object(std::string_view text) {
  if (text.empty()) return nlohmann::json::object();
  if (too_deep(text)) {
    return invalid_argument("JSON: nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  }
  Repetitions repetitions;
  auto value = nlohmann::json::parse(text, std::ref(repetitions), /*allow_exceptions=*/false);
  if (value.is_discarded()) return invalid_argument("JSON: the text does not parse");
  if (!value.is_object()) return invalid_argument("JSON: expected an object");
  if (repetitions.found()) return invalid_argument("JSON: field '" + *repetitions.found() + "' is there twice");
  return value;
}

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string dump_ascii(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace);
}

const nlohmann::json* Fields::find(const char* name) const {
  auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void Fields::fail(const char* name, const char* expected) {
  if (!failure_) failure_ = invalid_argument("JSON: field '" + std::string(name) + "' is not " + expected);
}

std::string Fields::text(const char* name, std::string fallback) {
  const auto* value = find(name);
  if (!value) return fallback;
  if (value->is_string()) return value->get_ref<const std::string&>();
  fail(name, "a string");
  return fallback;
}

uint64_t Fields::number(const char* name, uint64_t fallback, uint64_t max) {
  const auto* value = find(name);
  if (!value) return fallback;
  // Parsed non-negative integers are unsigned; ones set by our own code may be signed.
  bool natural = value->is_number_unsigned() || (value->is_number_integer() && value->get<int64_t>() >= 0);
  if (natural && value->get<uint64_t>() <= max) return value->get<uint64_t>();
  fail(name, "a natural number in range");
  return fallback;
}

bool Fields::boolean(const char* name, bool fallback) {
  const auto* value = find(name);
  if (!value) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, "a boolean");
  return fallback;
}

double Fields::real(const char* name, double fallback) {
  const auto* value = find(name);
  if (!value) return fallback;
  if (value->is_number()) return value->get<double>();
  fail(name, "a number");
  return fallback;
}

const nlohmann::json& Fields::object(const char* name) {
  static const nlohmann::json none = nlohmann::json::object();
  const auto* value = find(name);
  if (value && value->is_object()) return *value;
  if (value) fail(name, "an object");
  return none;
}

const nlohmann::json& Fields::list(const char* name, bool (nlohmann::json::*is_kind)() const noexcept,
                                   const char* expected) {
  static const nlohmann::json none = nlohmann::json::array();
  const auto* value = find(name);
  if (!value) return none;
  if (value->is_array() && std::ranges::all_of(*value, [&](const auto& item) { return (item.*is_kind)(); }))
    return *value;
  fail(name, expected);
  return none;
}

const nlohmann::json& Fields::objects(const char* name) {
  return list(name, &nlohmann::json::is_object, "a list of objects");
}

const nlohmann::json& Fields::texts(const char* name) {
  return list(name, &nlohmann::json::is_string, "a list of strings");
}

}  // namespace kiln::wire
