// The URL, the secrets, and what has to be there before code from elsewhere is taken.
#include "kiln/redis/access.h"

#include <sys/un.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "kiln/wire/secret.h"

namespace kiln::redis {
namespace {

constexpr std::string_view kUnixScheme = "redis+unix://", kTcpScheme = "redis://";

Error bad_url(const std::string& what) { return invalid_argument(what); }

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size();
}

Result<Address> parse_unix(std::string_view path) {
  if (!path.starts_with('/')) return bad_url("redis+unix:// needs an absolute path: redis+unix:///run/redis.sock");
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return bad_url("the socket's path is too long");
  Address out;
  out.socket = path;
  return out;
}

// "HOST", "HOST:PORT", "[V6]" or "[V6]:PORT".
Result<void> parse_host(std::string_view text, Address& out) {
  std::string_view port;
  if (text.starts_with('[')) {
    size_t end = text.find(']');
    if (end == std::string_view::npos) return bad_url("']' is missing");
    out.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    size_t colon = text.find(':');
    out.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon);
  }
  if (out.host.empty()) return bad_url("no host");
  if (port.empty()) return {};
  if (port[0] != ':' || !parse_number(port.substr(1), out.port) || out.port == 0) {
    return bad_url("'" + std::string(port) + "' is no port");
  }
  return {};
}

Result<Address> parse_tcp(std::string_view text) {
  Address out;
  if (size_t at = text.rfind('@'); at != std::string_view::npos) {
    out.user = text.substr(0, at);
    if (out.user.find(':') != std::string::npos) {
      return bad_url(std::string("no password on the command line: --remote-password-file or ") + kPasswordVariable);
    }
    text.remove_prefix(at + 1);
  }
  if (size_t slash = text.find('/'); slash != std::string_view::npos) {
    std::string_view database = text.substr(slash + 1);
    if (!database.empty() && !parse_number(database, out.database)) return bad_url("the database is no number");
    text = text.substr(0, slash);
  }
  if (auto host = parse_host(text, out); !host) return host.error();
  return out;
}

}  // namespace

Result<Address> parse_address(const std::string& url) {
  std::string_view text = url;
  if (text.starts_with(kUnixScheme)) return parse_unix(text.substr(kUnixScheme.size()));
  if (text.starts_with(kTcpScheme)) return parse_tcp(text.substr(kTcpScheme.size()));
  return bad_url("neither redis://HOST[:PORT][/DB] nor redis+unix:///PATH");
}

void take_password(Access& access) {
  if (const char* password = ::secure_getenv(kPasswordVariable)) access.password = password;
  ::unsetenv(kPasswordVariable);
}

Result<void> complete(Access& access, const std::string& option) {
  if (!access.enabled()) return {};
  if (auto address = parse_address(access.url); !address) {
    return invalid_argument(option + ": " + address.error().message);
  }
  if (!access.key_file.empty()) {
    auto key = wire::read_key(access.key_file);
    if (!key) return key.error();
    access.key = *key;
  } else if (!access.trust) {
    return invalid_argument(option +
                            ": whoever writes there has code executed here; --remote-key FILE takes only what is "
                            "authenticated by that key, --remote-trust anything");
  }
  if (access.password_file.empty()) return {};
  auto password = wire::read_secret(access.password_file);
  if (!password) return password.error();
  access.password = *password;
  return {};
}

}  // namespace kiln::redis
