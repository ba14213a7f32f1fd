// Values as they lie in a Redis that others can write to: compressed, and bound to their name by a digest.
// docs/reference/cache-format.md, "Remote value", is the manual.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::redis {

using Bytes = std::vector<std::byte>;

// Thread-safe.
class Sealer {
 public:
  // With a key the digest is its HMAC-SHA256, and only values with such a one are taken; without, SHA-256.
  explicit Sealer(std::string key) : key_(std::move(key)) {}

  Result<Bytes> seal(std::string_view name, std::span<const std::byte> content) const;
  // The content, of at most `limit` bytes; an error where anything at all is wrong with the value. Nothing reaches the
  // decompressor before the digest is right.
  Result<Bytes> open(std::string_view name, std::span<const std::byte> value, size_t limit) const;

  // A name that only those who share the key come to: the first 8 bytes of the digest of `text`, in hex.
  std::string tag(std::string_view text) const;

 private:
  Bytes digest(std::initializer_list<std::span<const std::byte>> parts) const;

  const std::string key_;
};

}  // namespace kiln::redis
