#include "bundle.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "kiln/wire/files.h"

namespace kiln::cli {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'K', 'N', 'B', 'U', 'N', 'D', 'L', 2};
constexpr uint32_t kSha256 = 0, kHmac = 1;
constexpr size_t kMaxBuilder = 4096;
// In the place of an entry's size: the end.
constexpr uint64_t kEnd = 0;

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

struct Digest::State {
  EVP_MD_CTX* plain = nullptr;
  EVP_MAC_CTX* keyed = nullptr;
  State() = default;
  State(const State& other)
      : plain(other.plain ? EVP_MD_CTX_new() : nullptr), keyed(other.keyed ? EVP_MAC_CTX_dup(other.keyed) : nullptr) {
    if (plain) EVP_MD_CTX_copy_ex(plain, other.plain);
  }
  State& operator=(const State&) = delete;
  ~State() {
    EVP_MD_CTX_free(plain);
    EVP_MAC_CTX_free(keyed);
  }
};

Digest::Digest(const std::string& key) : state_(std::make_unique<State>()) {
  if (key.empty()) {
    state_->plain = EVP_MD_CTX_new();
    EVP_DigestInit_ex(state_->plain, EVP_sha256(), nullptr);
    return;
  }
  EVP_MAC* hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  state_->keyed = EVP_MAC_CTX_new(hmac);
  EVP_MAC_free(hmac);
  char name[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                                   OSSL_PARAM_construct_end()};
  EVP_MAC_init(state_->keyed, reinterpret_cast<const unsigned char*>(key.data()), key.size(), parameters);
}
Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (state_->plain) {
    EVP_DigestUpdate(state_->plain, data, bytes.size());
  } else {
    EVP_MAC_update(state_->keyed, data, bytes.size());
  }
}

Digest::Value Digest::value() const {
  const State copy(*state_);
  Value out{};
  size_t size = 0;
  if (copy.plain) {
    EVP_DigestFinal_ex(copy.plain, out.data(), nullptr);
  } else {
    EVP_MAC_final(copy.keyed, out.data(), &size, out.size());
  }
  return out;
}

Result<BundleWriter> BundleWriter::create(const std::string& path, std::string_view builder_id,
                                          const std::string& key) {
  BundleWriter out;
  out.digest_ = std::make_unique<Digest>(key);
  out.path_ = path;
  out.part_ = path + ".XXXXXX";
  const int fd = ::mkostemp(out.part_.data(), O_CLOEXEC);  // a name that nobody has put a link at
  if (fd >= 0) out.file_.reset(::fdopen(fd, "wb"));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (!out.file_ || ::fchmod(fd, 0666 & ~mask) != 0) {
    return invalid_argument(path + ": cannot be written: " + std::strerror(errno));
  }
  const uint32_t kind = key.empty() ? kSha256 : kHmac;
  const auto size = static_cast<uint32_t>(builder_id.size());
  for (std::span<const std::byte> bytes : std::initializer_list<std::span<const std::byte>>{
           std::as_bytes(std::span(kMagic)), bytes_of(kind), bytes_of(size), std::as_bytes(std::span(builder_id))}) {
    if (auto done = out.write(bytes); !done) return done.error();
  }
  return out;
}

BundleWriter::~BundleWriter() {
  if (file_) ::unlink(part_.c_str());
}

Result<void> BundleWriter::write(std::span<const std::byte> bytes) {
  digest_->add(bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) return {};
  return invalid_argument(path_ + ": cannot be written: " + std::strerror(errno));
}

// The digest of all before it, which is itself part of what follows.
Result<void> BundleWriter::sign() {
  const Digest::Value digest = digest_->value();
  return write(std::as_bytes(std::span(digest)));
}

Result<void> BundleWriter::add(std::span<const std::byte> entry) {
  const uint64_t size = entry.size();
  if (auto done = write(bytes_of(size)); !done) return done;
  if (auto done = write(entry); !done) return done;
  return sign();
}

Result<void> BundleWriter::finish() {
  if (auto done = write(bytes_of(kEnd)); !done) return done;
  if (auto done = sign(); !done) return done;
  if (std::fflush(file_.get()) != 0 || ::rename(part_.c_str(), path_.c_str()) != 0) {
    return invalid_argument(path_ + ": cannot be written: " + std::strerror(errno));
  }
  file_.reset();
  return {};
}

namespace {

// Reads a bundle's parts in their order.
class Reader {
 public:
  Reader(wire::InputFile file, std::string path, const std::string& key)
      : file_(std::move(file)), path_(std::move(path)), keyed_(!key.empty()), digest_(key) {}

  Result<void> read(std::span<std::byte> into) {
    if (!file_.read(into.data(), into.size())) return damaged("it ends too early");
    digest_.add(into);
    return {};
  }
  template <class Value>
  Result<Value> number() {
    Value out{};
    if (auto done = read(std::as_writable_bytes(std::span(&out, 1))); !done) return done.error();
    return out;
  }
  // What has been read so far is as it was written.
  Result<void> check() {
    const Digest::Value expected = digest_.value();
    Digest::Value stored{};
    if (auto done = read(std::as_writable_bytes(std::span(stored))); !done) return done;
    if (CRYPTO_memcmp(stored.data(), expected.data(), stored.size()) == 0) return {};
    return keyed_ ? error(ErrorCode::kPermissionDenied, path_ + ": it is not authenticated by this key")
                  : damaged("its checksum differs");
  }
  Result<void> check_kind() {
    auto kind = number<uint32_t>();
    if (!kind) return kind.error();
    if (*kind == (keyed_ ? kHmac : kSha256)) return {};
    if (*kind != kHmac && *kind != kSha256) return damaged("it has a digest of another kind");
    return error(ErrorCode::kPermissionDenied, path_ + (keyed_ ? ": it is not authenticated by a key"
                                                               : ": it is authenticated by a key: give --key"));
  }
  size_t remaining() const { return file_.remaining(); }
  Error damaged(const std::string& what) const { return invalid_argument(path_ + ": no whole bundle: " + what); }

 private:
  wire::InputFile file_;
  std::string path_;
  const bool keyed_;
  Digest digest_;
};

Result<std::string> read_builder(Reader& reader) {
  std::array<char, sizeof kMagic> magic{};
  if (auto done = reader.read(std::as_writable_bytes(std::span(magic))); !done) return done.error();
  if (std::memcmp(magic.data(), kMagic, sizeof kMagic - 1) != 0) return reader.damaged("it does not begin like one");
  if (magic.back() != kMagic[7]) {
    return reader.damaged("it is of version " + std::to_string(magic.back()) + " of the format; this is version " +
                          std::to_string(kMagic[7]) + ", export it again");
  }
  if (auto done = reader.check_kind(); !done) return done.error();
  auto size = reader.number<uint32_t>();
  if (!size) return size.error();
  if (*size > kMaxBuilder) return reader.damaged("the builder's name is too long");
  std::string builder(*size, 0);
  if (auto done = reader.read(std::as_writable_bytes(std::span(builder))); !done) return done.error();
  return builder;
}

}  // namespace

Result<size_t> read_bundle(const std::string& path, std::string_view builder_id, const std::string& key,
                           const TakeEntry& take) {
  auto file = wire::InputFile::open(path);
  if (!file) return file.error();
  Reader reader(std::move(*file), path, key);
  auto builder = read_builder(reader);
  if (!builder) return builder.error();
  if (*builder != builder_id) {
    return error(ErrorCode::kVersionMismatch,
                 path + ": it was made by another compiler: " + *builder + "; here is " + std::string(builder_id));
  }
  std::vector<std::byte> bytes;
  for (size_t count = 0;; ++count) {
    auto size = reader.number<uint64_t>();
    if (!size) return size.error();
    if (*size == kEnd) {
      if (auto whole = reader.check(); !whole) return whole.error();
      if (reader.remaining() != 0) return reader.damaged("its end is not where it says");
      return count;
    }
    if (*size > wire::kMaxEntrySize || *size > reader.remaining()) return reader.damaged("an entry is too long");
    bytes.resize(*size);
    if (auto done = reader.read(bytes); !done) return done.error();
    if (auto authentic = reader.check(); !authentic) return authentic.error();
    auto entry = wire::decode_entry(bytes);
    if (!entry) return reader.damaged("entry " + std::to_string(count) + ": " + entry.error().message);
    if (entry->builder != wire::builder_tag(builder_id)) return reader.damaged("an entry is of another compiler");
    if (auto done = take(bytes, *entry); !done) return done.error();
  }
}

}  // namespace kiln::cli
