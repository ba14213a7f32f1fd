#include "kiln/redis/sealed.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <zstd.h>

#include <array>
#include <cstring>

namespace kiln::redis {
namespace {

// magic "KNRV" ‖ u8 version ‖ u8 kind of digest ‖ u16 0 ‖ u64 size of the content, little-endian ‖ digest ‖ zstd frame
constexpr std::string_view kMagic = "KNRV";
constexpr std::byte kVersion{1}, kSha256{0}, kHmac{1};
constexpr size_t kHeadSize = 16, kDigestSize = 32, kTagSize = 8;
constexpr int kLevel = 3;  // 1 saves little time, and more saves little space of code

void append(Bytes& out, std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

Bytes make_head(bool keyed, uint64_t size) {
  Bytes out;
  append(out, std::as_bytes(std::span(kMagic)));
  append(out, std::array{kVersion, keyed ? kHmac : kSha256, std::byte{0}, std::byte{0}});
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(size >> shift));
  return out;
}

uint64_t content_size(std::span<const std::byte> head) {
  uint64_t out = 0;
  for (size_t i = 0; i < 8; ++i) out |= static_cast<uint64_t>(head[8 + i]) << (8 * i);
  return out;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

Bytes Sealer::digest(std::initializer_list<std::span<const std::byte>> parts) const {
  Bytes text;
  for (const auto& part : parts) append(text, part);
  const auto* from = reinterpret_cast<const unsigned char*>(text.data());
  Bytes out(kDigestSize);
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  if (key_.empty()) {
    EVP_Digest(from, text.size(), to, nullptr, EVP_sha256(), nullptr);
  } else {
    HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), from, text.size(), to, nullptr);
  }
  return out;
}

// The digest is over the name too: a value under another name is somebody else's.
Result<Bytes> Sealer::seal(std::string_view name, std::span<const std::byte> content) const {
  Bytes packed(ZSTD_compressBound(content.size()));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), kLevel);
  if (ZSTD_isError(size)) return internal_error(std::string("zstd: ") + ZSTD_getErrorName(size));
  packed.resize(size);
  Bytes out = make_head(!key_.empty(), content.size());
  append(out, digest({out, bytes_of(name), packed}));
  append(out, packed);
  return out;
}

Result<Bytes> Sealer::open(std::string_view name, std::span<const std::byte> value, size_t limit) const {
  if (value.size() < kHeadSize + kDigestSize) return invalid_argument("too short");
  auto head = value.first(kHeadSize), packed = value.subspan(kHeadSize + kDigestSize);
  const uint64_t size = content_size(head);
  if (size > limit) return invalid_argument("too long");
  const Bytes expected_head = make_head(!key_.empty(), size);
  if (std::memcmp(head.data(), expected_head.data(), kHeadSize) != 0) {
    const bool other_kind = std::memcmp(head.data(), expected_head.data(), kMagic.size() + 1) == 0;
    return invalid_argument(!other_kind    ? "not a value of this version"
                            : key_.empty() ? "authenticated by a key that is not known here"
                                           : "not authenticated");
  }
  const Bytes expected = digest({head, bytes_of(name), packed});
  if (CRYPTO_memcmp(value.data() + kHeadSize, expected.data(), kDigestSize) != 0) {
    return invalid_argument("wrong digest");
  }
  Bytes content(size);
  if (ZSTD_decompress(content.data(), content.size(), packed.data(), packed.size()) != size) {
    return invalid_argument("does not decompress to its size");
  }
  return content;
}

std::string Sealer::tag(std::string_view text) const {
  constexpr const char* kDigits = "0123456789abcdef";
  const Bytes all = digest({bytes_of(text)});
  std::string out;
  for (const std::byte each : std::span(all).first(kTagSize)) {
    out += kDigits[std::to_integer<unsigned>(each) >> 4];
    out += kDigits[std::to_integer<unsigned>(each) & 15];
  }
  return out;
}

}  // namespace kiln::redis
