// Fields of JSON that may be anything. Within pt2/ one that is not as it must be is an exception; no public function
// lets it out.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace kiln::graph::pt2 {

using nlohmann::json;

struct BadField : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] inline void bad(const std::string& what) { throw BadField(what); }

inline const json* field_if(const json& object, const char* name) {
  if (!object.is_object()) bad(std::string("what should have `") + name + "` is no object");
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
inline const json& field(const json& object, const char* name) {
  const json* found = field_if(object, name);
  if (!found) bad(std::string("`") + name + "` is missing");
  return *found;
}
inline const json& list(const json& object, const char* name) {
  const json& out = field(object, name);
  if (!out.is_array()) bad(std::string("`") + name + "` is no list");
  return out;
}
inline const std::string& text(const json& value, const char* name) {
  if (!value.is_string()) bad(std::string("`") + name + "` is no text");
  return value.get_ref<const std::string&>();
}
inline const std::string& text_field(const json& object, const char* name) { return text(field(object, name), name); }
inline int64_t integer(const json& value, const char* name) {
  if (!value.is_number_integer()) bad(std::string("`") + name + "` is no integer");
  return value.get<int64_t>();
}
inline bool truth(const json& value, const char* name) {
  if (!value.is_boolean()) bad(std::string("`") + name + "` is no boolean");
  return value.get<bool>();
}

// PyTorch's unions are objects with one field, whose name says which it is.
struct Tagged {
  const std::string& tag;
  const json& value;
};
inline Tagged tagged(const json& object) {
  if (!object.is_object() || object.size() != 1) bad("a union has not just one field");
  return {object.begin().key(), object.begin().value()};
}

}  // namespace kiln::graph::pt2
