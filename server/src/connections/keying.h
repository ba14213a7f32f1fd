// What must be known of a request before it is looked up: hashes of its sections, of a large one a piece at a time, so
// that others have their turn in between.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include "kiln/dsl/request_hash.h"
#include "kiln/wire/messages.h"

namespace kiln::server {

class Keying {
 public:
  static constexpr size_t kPiece = 64u << 10;

  // Of what lives until the last step.
  Keying(std::string_view builder_id, const wire::CompileBody& body)
      : hash_(builder_id, body.canonical.size()), canonical_(body.canonical), debug_(body.debug) {}

  // Hashes a piece of each section. True: that was all.
  bool step() {
    hash_.add(take_piece(canonical_));
    const auto debug = take_piece(debug_);
    debug_hash_ =
        31 * debug_hash_ + std::hash<std::string_view>{}({reinterpret_cast<const char*>(debug.data()), debug.size()});
    return canonical_.empty() && debug_.empty();
  }
  // Once, after the last step.
  RequestKey key() { return hash_.key(); }
  // Tells debug sections of one key apart.
  size_t debug_hash() const { return debug_hash_; }

 private:
  static std::span<const std::byte> take_piece(std::span<const std::byte>& rest) {
    const auto piece = rest.first(std::min(rest.size(), kPiece));
    rest = rest.subspan(piece.size());
    return piece;
  }

  RequestHash hash_;
  std::span<const std::byte> canonical_, debug_;
  size_t debug_hash_ = 0;
};

}  // namespace kiln::server
