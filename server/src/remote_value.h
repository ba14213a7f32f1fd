// An entry as it lies in the remote tier: compressed, and bound to its name by a digest. docs/cache-format.md, "Remote
// value", is the manual.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "frame_socket.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/result.h"
#include "kiln/wire/entry.h"

namespace kiln::server {

// The longest value of any entry.
inline constexpr size_t kMaxRemoteValue = wire::kMaxEntrySize + (1u << 20);

class RemoteCodec {
 public:
  // With a key the digest is its HMAC, and only values with such a one are taken.
  RemoteCodec(std::string builder_id, std::string key);

  // "kiln:1:<builder>:<key in hex>"
  std::string name(const RequestKey& key) const;
  Result<Bytes> encode(const RequestKey& key, std::span<const std::byte> entry) const;
  // The entry; an error where anything at all is wrong with the value.
  Result<Bytes> decode(const RequestKey& key, std::span<const std::byte> value) const;

 private:
  Bytes digest(std::string_view name, std::span<const std::byte> head, std::span<const std::byte> body) const;

  const wire::BuilderTag builder_tag_;
  const std::string prefix_, key_;
};

}  // namespace kiln::server
