// A request's key, of pieces: who must not be kept from other things for long hashes a large section a piece at a time.
#pragma once

#include <memory>

#include "kiln/dsl/request.h"

namespace kiln {

class RequestHash {
 public:
  RequestHash(std::string_view builder_id, uint64_t canonical_size);
  ~RequestHash();
  RequestHash(RequestHash&&) noexcept;
  RequestHash& operator=(RequestHash&&) noexcept;

  // All pieces together are the canonical section.
  void add(std::span<const std::byte> piece);
  // What request_key() is of the whole; once.
  RequestKey key();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
