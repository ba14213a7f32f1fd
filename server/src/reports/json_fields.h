// The fields of an object as text, one after the other. An object of nlohmann's allocates in its destructor, and where
// there is no memory that ends the process; one of its numbers and strings does not.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/wire/json.h"

namespace kiln::server {

// A null is left out.
struct JsonField {
  std::string_view name;
  nlohmann::json value;
};
using JsonFields = std::initializer_list<JsonField>;

// `"a":1,"b":"x"`, in printable ASCII.
inline std::string fields_text(JsonFields fields) {
  std::string out;
  for (const JsonField& field : fields) {
    if (field.value.is_null()) continue;
    if (!out.empty()) out += ',';
    out += '"';
    out += field.name;
    out += "\":";
    out += wire::dump_ascii(field.value);
  }
  return out;
}

// `["a","b"]`.
inline std::string list_text(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) {
    if (out.size() > 1) out += ',';
    out += wire::dump_ascii(item);
  }
  return out + "]";
}

}  // namespace kiln::server
