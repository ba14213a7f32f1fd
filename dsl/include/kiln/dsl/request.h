// A compile request as bytes. The service treats it as opaque: only the client writes it and only a worker reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

using RequestKey = std::array<uint8_t, 32>;

struct RequestBytes {
  std::vector<std::byte> canonical;  // hashed: kernel, resolved target, constexprs, facts, options
  std::vector<std::byte> debug;      // not hashed: names and source locations, for error messages
};

// SHA-256(schema version ‖ builder id ‖ canonical section). Client and daemon compute it alike; `builder_id` names the
// exact compiler and comes from the daemon's greeting.
RequestKey request_key(std::string_view builder_id, std::span<const std::byte> canonical);

std::string to_hex(const RequestKey& key);
// False when `hex` is not 64 hexadecimal digits.
bool parse_hex(std::string_view hex, RequestKey& key);

}  // namespace kiln
