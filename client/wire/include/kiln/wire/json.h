// JSON as frames carry it: bounded depth, no exceptions, unknown fields ignored, wrong types refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::wire {

inline constexpr int kMaxJsonDepth = 32;

// An empty text is an empty object; anything but an object is an error, and so is a field that is there twice.
Result<nlohmann::json> parse_object(std::string_view text);

// Empties it, however deep it is. The library's destructor allocates as much as a list is long, and where there is no
// memory that ends the process; of an empty value it needs none.
void take_apart(nlohmann::json& value) noexcept;
// The same at the end of a block, for what somebody else has sent.
class TakesApart {
 public:
  explicit TakesApart(nlohmann::json& value) : value_(value) {}
  ~TakesApart() { take_apart(value_); }
  TakesApart(const TakesApart&) = delete;
  TakesApart& operator=(const TakesApart&) = delete;

 private:
  nlohmann::json& value_;
};

// Never throws: bytes that are not UTF-8 are replaced.
std::string dump(const nlohmann::json& value);
// With escapes for all that is not printable ASCII: for what people look at, whose terminals obey some characters.
std::string dump_ascii(const nlohmann::json& value, int indent = -1);

// Reads fields of an object; the first field of a wrong type is remembered, so a reader checks once, at its end.
class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {}

  std::string text(const char* name, std::string fallback = {});
  uint64_t number(const char* name, uint64_t fallback = 0, uint64_t max = UINT64_MAX);
  bool boolean(const char* name, bool fallback = false);
  double real(const char* name, double fallback = 0);
  // An object; an empty one where it is not there.
  const nlohmann::json& object(const char* name);
  // A list of objects, or of texts; an empty one where it is not there.
  const nlohmann::json& objects(const char* name);
  const nlohmann::json& texts(const char* name);

  bool ok() const { return !failure_; }
  const Error& error() const { return *failure_; }

 private:
  const nlohmann::json* find(const char* name) const;
  const nlohmann::json& list(const char* name, bool (nlohmann::json::*is_kind)() const noexcept, const char* expected);
  void fail(const char* name, const char* expected);

  const nlohmann::json& object_;
  std::optional<Error> failure_;
};

}  // namespace kiln::wire
