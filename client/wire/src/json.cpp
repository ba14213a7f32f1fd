// Bounded JSON parsing and field access.
#include "kiln/wire/json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kiln/dsl/kept.h"

namespace kiln::wire {
namespace {

// A frame's text has room for an eighth of that.
constexpr size_t kMaxJsonValues = 256u << 10;

// Takes what the parser finds and builds the value, as deep and as large as is allowed. The library's own parser, given
// a callback, goes through all of an array at the end of each of its members.
class JsonBuilder {
 public:
  using Json = nlohmann::json;

  JsonBuilder() = default;
  ~JsonBuilder() { take_apart(root_); }
  JsonBuilder(const JsonBuilder&) = delete;
  JsonBuilder& operator=(const JsonBuilder&) = delete;

  const Json& value() const { return root_; }
  Json take() { return std::move(root_); }
  const std::string& failure() const { return failure_; }

  // What nlohmann::json::sax_parse() calls.
  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(Json::number_integer_t value) { return add(value) != nullptr; }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value) != nullptr; }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value) != nullptr; }
  bool string(std::string& value) { return add(std::move(value)) != nullptr; }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  // A field that an object has twice: which of them counts would depend on who reads it.
  bool key(std::string& name) {
    const auto [field, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    field_ = &field->second;
    return is_new || fail("field '" + name + "' is there twice");
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) {
    return fail("the text does not parse");
  }

 private:
  bool fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  Json* add(Json value) {
    if (++values_ > kMaxJsonValues) {
      fail("more than " + std::to_string(kMaxJsonValues) + " values");
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*field_ = std::move(value));
    return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  }

  bool open(Json container) {
    if (open_.size() == size_t{kMaxJsonDepth})
      return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    Json* const added = add(std::move(container));
    if (added) open_.push_back(added);  // it stays where it is until it is closed
    return added != nullptr;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // objects and arrays, each within the one before it
  Json* field_ = nullptr;    // of the innermost object
  size_t values_ = 0;
  std::string failure_;
};

}  // namespace

Result<nlohmann::json> parse_object(std::string_view text) {
  if (text.empty()) return nlohmann::json::object();
  JsonBuilder builder;
  if (!nlohmann::json::sax_parse(text, &builder)) return invalid_argument("JSON: " + builder.failure());
  if (!builder.value().is_object()) return invalid_argument("JSON: expected an object");
  return builder.take();
}

// From the back and from the front, member by member: recursion is as deep as parse_object() allows.
void take_apart(nlohmann::json& value) noexcept {
  if (value.is_array()) {
    auto& items = value.get_ref<nlohmann::json::array_t&>();
    for (; !items.empty(); items.pop_back()) take_apart(items.back());
  } else if (value.is_object()) {
    auto& fields = value.get_ref<nlohmann::json::object_t&>();
    for (; !fields.empty(); fields.erase(fields.begin())) take_apart(fields.begin()->second);
  }
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
  static const dsl::Kept none = nlohmann::json::object();
  const auto* value = find(name);
  if (value && value->is_object()) return *value;
  if (value) fail(name, "an object");
  return *none;
}

const nlohmann::json& Fields::list(const char* name, bool (nlohmann::json::*is_kind)() const noexcept,
                                   const char* expected) {
  static const dsl::Kept none = nlohmann::json::array();
  const auto* value = find(name);
  if (!value) return *none;
  if (value->is_array() && std::ranges::all_of(*value, [&](const auto& item) { return (item.*is_kind)(); }))
    return *value;
  fail(name, expected);
  return *none;
}

const nlohmann::json& Fields::objects(const char* name) {
  return list(name, &nlohmann::json::is_object, "a list of objects");
}

const nlohmann::json& Fields::texts(const char* name) {
  return list(name, &nlohmann::json::is_string, "a list of strings");
}

}  // namespace kiln::wire
