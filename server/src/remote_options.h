// Where the remote tier is and how it is trusted.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::server {

// redis://[USER@]HOST[:PORT][/DB] or redis+unix:///PATH
struct RemoteAddress {
  std::string socket;  // a path; empty: host and port
  std::string host;
  uint16_t port = 6379;
  unsigned database = 0;
  std::string user;  // empty: Redis' default user
};
// Refuses a password: a command line is there for everybody to read.
Result<RemoteAddress> parse_remote_address(const std::string& url);

// What a file holds up to its last line's end. Refused where others than its owner may read or write it.
Result<std::string> read_secret(const std::string& path);

struct RemoteOptions {
  using Milliseconds = std::chrono::milliseconds;

  std::string url = {};  // empty: no remote tier
  std::string mode = "read";
  std::string key_file = {}, password_file = {};
  bool trust = false;
  Milliseconds connect_timeout{100};
  Milliseconds timeout{1'000};
  size_t breaker_failures = 5;
  Milliseconds breaker_window{10'000};
  Milliseconds breaker_rest{30'000};

  // Of the files above and the environment; never shown.
  std::string key = {}, password = {};

  bool enabled() const { return !url.empty(); }
  bool writes() const { return mode == "readwrite"; }
};
inline constexpr size_t kMinRemoteKey = 32;
inline constexpr const char* kRemotePasswordVariable = "KILN_REMOTE_PASSWORD";

// Checks the options together and reads their secrets; the password's variable leaves the environment.
Result<void> complete(RemoteOptions& options);

}  // namespace kiln::server
