// Where a Redis is and how far it is trusted.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "kiln/dsl/result.h"
#include "kiln/wire/secret.h"

namespace kiln::redis {

// redis://[USER@]HOST[:PORT][/DB] or redis+unix:///PATH
struct Address {
  std::string socket;  // a path; empty: host and port
  std::string host;
  uint16_t port = 6379;
  unsigned database = 0;
  std::string user;  // empty: Redis' default user
};
// Refuses a password: a command line is there for everybody to read.
Result<Address> parse_address(const std::string& url);

struct Access {
  using Milliseconds = std::chrono::milliseconds;

  std::string url = {};  // empty: none
  std::string key_file = {}, password_file = {};
  bool trust = false;
  Milliseconds connect_timeout{100};
  Milliseconds timeout{1'000};

  // Of the files above and the environment; never shown.
  std::string key = {}, password = {};

  bool enabled() const { return !url.empty(); }
};
using wire::kMinKey;
inline constexpr const char* kPasswordVariable = "KILN_REMOTE_PASSWORD";

// The password of the environment; its variable leaves it, so that no process started here sees it.
void take_password(Access& access);

// Checks the access together and reads its secrets. Errors name `option`, which gave the URL.
Result<void> complete(Access& access, const std::string& option);

}  // namespace kiln::redis
