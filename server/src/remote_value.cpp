// Nothing of a value reaches the decompressor before its digest is right.
#include "remote_value.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <zstd.h>

#include <cstring>

namespace kiln::server {
namespace {

// magic "KNRV" ‖ u8 version ‖ u8 kind of digest ‖ u16 0 ‖ u64 size of the entry, little-endian ‖ digest ‖ zstd frame
constexpr std::string_view kMagic = "KNRV";
constexpr std::byte kVersion{1}, kSha256{0}, kHmac{1};
constexpr size_t kHeadSize = 16, kDigestSize = 32;
constexpr int kLevel = 3;  // 1 saves little time, and more saves little space of code

void append(Bytes& out, std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

Bytes make_head(bool keyed, uint64_t size) {
  Bytes out;
  append(out, std::as_bytes(std::span(kMagic)));
  append(out, std::array{kVersion, keyed ? kHmac : kSha256, std::byte{0}, std::byte{0}});
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(size >> shift));
  return out;
}

uint64_t entry_size(std::span<const std::byte> head) {
  uint64_t out = 0;
  for (size_t i = 0; i < 8; ++i) out |= static_cast<uint64_t>(head[8 + i]) << (8 * i);
  return out;
}

const unsigned char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

RemoteCodec::RemoteCodec(std::string builder_id, std::string key)
    : builder_tag_(wire::builder_tag(builder_id)),
      prefix_("kiln:1:" + wire::builder_directory(builder_id) + ":"),
      key_(std::move(key)) {}

std::string RemoteCodec::name(const RequestKey& key) const { return prefix_ + to_hex(key); }

// Over the name too: an entry under another name is somebody else's code.
Bytes RemoteCodec::digest(std::string_view name, std::span<const std::byte> head,
                          std::span<const std::byte> body) const {
  Bytes text(head.begin(), head.end());
  append(text, std::as_bytes(std::span(name)));
  append(text, body);
  Bytes out(kDigestSize);
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  if (key_.empty()) {
    EVP_Digest(text.data(), text.size(), to, nullptr, EVP_sha256(), nullptr);
  } else {
    HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), chars(text), text.size(), to, nullptr);
  }
  return out;
}

Result<Bytes> RemoteCodec::encode(const RequestKey& key, std::span<const std::byte> entry) const {
  Bytes packed(ZSTD_compressBound(entry.size()));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), entry.data(), entry.size(), kLevel);
  if (ZSTD_isError(size)) return internal_error(std::string("zstd: ") + ZSTD_getErrorName(size));
  packed.resize(size);
  Bytes out = make_head(!key_.empty(), entry.size());
  append(out, digest(name(key), out, packed));
  append(out, packed);
  return out;
}

Result<Bytes> RemoteCodec::decode(const RequestKey& key, std::span<const std::byte> value) const {
  if (value.size() < kHeadSize + kDigestSize) return invalid_argument("too short");
  auto head = value.first(kHeadSize), packed = value.subspan(kHeadSize + kDigestSize);
  const uint64_t size = entry_size(head);
  if (size > wire::kMaxEntrySize) return invalid_argument("too long");
  const Bytes expected_head = make_head(!key_.empty(), size);
  if (std::memcmp(head.data(), expected_head.data(), kHeadSize) != 0) {
    const bool other_kind = std::memcmp(head.data(), expected_head.data(), kMagic.size() + 1) == 0;
    return invalid_argument(!other_kind    ? "not a value of this version"
                            : key_.empty() ? "authenticated by a key that is not known here"
                                           : "not authenticated");
  }
  const Bytes expected = digest(name(key), head, packed);
  if (CRYPTO_memcmp(value.data() + kHeadSize, expected.data(), kDigestSize) != 0) {
    return invalid_argument("wrong digest");
  }
  Bytes entry(size);
  if (ZSTD_decompress(entry.data(), entry.size(), packed.data(), packed.size()) != size) {
    return invalid_argument("does not decompress to its size");
  }
  if (auto view = wire::decode_entry_for(entry, key, builder_tag_); !view) return view.error();
  return entry;
}

}  // namespace kiln::server
