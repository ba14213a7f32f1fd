// What a daemon answered, or a file has, may be of any type: a field of another one than it must have is an error that
// names it.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::cli {

inline Error bad_answer(const Error& what) {
  return error(ErrorCode::kInternal, "the daemon's answer is of no form that is known here: " + what.message);
}

// Runs what reads JSON as if it were as it should be.
template <class Read>
auto reading(const std::string& whose, Read&& read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const nlohmann::json::exception& other) {
    return internal_error(whose + " is of no form that is known here: " + other.what());
  }
}

}  // namespace kiln::cli
