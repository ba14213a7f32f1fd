// An entry as it lies in the remote tier: under a name of its builder and key, sealed (kiln/redis/sealed.h).
#pragma once

#include <span>
#include <string>

#include "connections/frame_socket.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/result.h"
#include "kiln/redis/sealed.h"
#include "kiln/wire/entry.h"

namespace kiln::server {

class RemoteCodec {
 public:
  // With a key only entries that were sealed with it are taken.
  RemoteCodec(std::string builder_id, std::string key);

  // "kiln:1:<builder>:<key in hex>"
  std::string name(const RequestKey& key) const;
  Result<Bytes> encode(const RequestKey& key, std::span<const std::byte> entry) const;
  // The entry; an error where anything at all is wrong with the value.
  Result<Bytes> decode(const RequestKey& key, std::span<const std::byte> value) const;

 private:
  const wire::BuilderTag builder_tag_;
  const std::string prefix_;
  const redis::Sealer sealer_;
};

}  // namespace kiln::server
