#include "cache/remote_value.h"

namespace kiln::server {

RemoteCodec::RemoteCodec(std::string builder_id, std::string key)
    : builder_tag_(wire::builder_tag(builder_id)),
      prefix_("kiln:1:" + wire::builder_directory(builder_id) + ":"),
      sealer_(std::move(key)) {}

std::string RemoteCodec::name(const RequestKey& key) const { return prefix_ + to_hex(key); }

Result<Bytes> RemoteCodec::encode(const RequestKey& key, std::span<const std::byte> entry) const {
  return sealer_.seal(name(key), entry);
}

Result<Bytes> RemoteCodec::decode(const RequestKey& key, std::span<const std::byte> value) const {
  auto entry = sealer_.open(name(key), value, wire::kMaxEntrySize);
  if (!entry) return entry;
  if (auto view = wire::decode_entry_for(*entry, key, builder_tag_); !view) return view.error();
  return entry;
}

}  // namespace kiln::server
