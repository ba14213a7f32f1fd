// Bounded JSON parsing and field access.
#include "kiln/wire/json.h"

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

}  // namespace

Result<nlohmann::json> parse_object(std::string_view text) {
  if (text.empty()) return nlohmann::json::object();
  if (too_deep(text)) {
    return invalid_argument("JSON: nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  }
  auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return invalid_argument("JSON: the text does not parse");
  if (!value.is_object()) return invalid_argument("JSON: expected an object");
  return value;
}

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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

}  // namespace kiln::wire
