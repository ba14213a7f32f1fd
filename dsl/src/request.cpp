#include "kiln/dsl/request.h"

#include <openssl/evp.h>

#include <memory>

namespace kiln {
namespace {

// Bump when the meaning of the canonical bytes changes.
constexpr std::string_view kSchema = "kiln-request-1";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

RequestKey request_key(std::string_view builder_id, std::span<const std::byte> canonical) {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  // Each part behind its length, so that no two splits of the same bytes collide.
  auto add = [&](const void* data, uint64_t size) {
    EVP_DigestUpdate(context.get(), &size, sizeof size);
    EVP_DigestUpdate(context.get(), data, size);
  };
  add(kSchema.data(), kSchema.size());
  add(builder_id.data(), builder_id.size());
  add(canonical.data(), canonical.size());
  RequestKey key{};
  EVP_DigestFinal_ex(context.get(), key.data(), nullptr);
  return key;
}

std::string to_hex(const RequestKey& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (uint8_t byte : key) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

bool parse_hex(std::string_view hex, RequestKey& key) {
  if (hex.size() != 2 * key.size()) return false;
  for (size_t i = 0; i < key.size(); ++i) {
    int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

}  // namespace kiln
