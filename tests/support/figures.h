// What a daemon counts, as JSON.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kiln/client/connection.h"
#include "kiln/wire/json.h"

namespace kiln::test {

// Empty, and a failure of the test, where the daemon does not answer.
inline nlohmann::json figures_of(client::Connection& daemon) {
  const auto text = daemon.stats();
  const auto figures = text ? wire::parse_object(*text) : text.error();
  if (!figures) ADD_FAILURE() << figures.error().message;
  return figures ? *figures : nlohmann::json::object();
}

}  // namespace kiln::test
