#include "kiln/dsl/request.h"

#include "kiln/dsl/request_hash.h"

// The functions that need nothing of the library's state: what EVP uses is gone once exit() has run OpenSSL's handler,
// and other threads may still ask for keys then.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

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

struct RequestHash::State {
  SHA256_CTX context;

  void add(const void* data, uint64_t size) { SHA256_Update(&context, data, size); }
  // Each part behind its length, so that no two splits of the same bytes collide.
  void add_size(uint64_t size) { add(&size, sizeof size); }
};

RequestHash::RequestHash(std::string_view builder_id, uint64_t canonical_size) : state_(std::make_unique<State>()) {
  SHA256_Init(&state_->context);
  for (const std::string_view part : {kSchema, builder_id}) {
    state_->add_size(part.size());
    state_->add(part.data(), part.size());
  }
  state_->add_size(canonical_size);
}

RequestHash::~RequestHash() = default;
RequestHash::RequestHash(RequestHash&&) noexcept = default;
RequestHash& RequestHash::operator=(RequestHash&&) noexcept = default;

void RequestHash::add(std::span<const std::byte> piece) { state_->add(piece.data(), piece.size()); }

RequestKey RequestHash::key() {
  RequestKey key{};
  SHA256_Final(key.data(), &state_->context);
  return key;
}

RequestKey request_key(std::string_view builder_id, std::span<const std::byte> canonical) {
  RequestHash hash(builder_id, canonical.size());
  hash.add(canonical);
  return hash.key();
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
