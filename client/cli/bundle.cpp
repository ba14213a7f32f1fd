#include "bundle.h"

#include <fcntl.h>
#include <openssl/evp.h>
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

constexpr char kMagic[8] = {'K', 'N', 'B', 'U', 'N', 'D', 'L', 1};
constexpr size_t kMaxBuilder = 4096;
// In the place of an entry's size: the end, and the checksum follows.
constexpr uint64_t kEnd = 0;

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest() : state_(std::make_unique<State>()) { EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr); }
Digest::~Digest() = default;
void Digest::add(std::span<const std::byte> bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }
Digest::Value Digest::finish() {
  Value out{};
  EVP_DigestFinal_ex(state_->context, out.data(), nullptr);
  return out;
}

Result<BundleWriter> BundleWriter::create(const std::string& path, std::string_view builder_id) {
  BundleWriter out;
  out.path_ = path;
  out.part_ = path + ".XXXXXX";
  const int fd = ::mkostemp(out.part_.data(), O_CLOEXEC);  // a name that nobody has put a link at
  if (fd >= 0) out.file_.reset(::fdopen(fd, "wb"));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (!out.file_ || ::fchmod(fd, 0666 & ~mask) != 0) {
    return invalid_argument(path + ": cannot be written: " + std::strerror(errno));
  }
  const auto size = static_cast<uint32_t>(builder_id.size());
  for (std::span<const std::byte> bytes : std::initializer_list<std::span<const std::byte>>{
           std::as_bytes(std::span(kMagic)), bytes_of(size), std::as_bytes(std::span(builder_id))}) {
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

Result<void> BundleWriter::add(std::span<const std::byte> entry) {
  const uint64_t size = entry.size();
  if (auto done = write(bytes_of(size)); !done) return done;
  return write(entry);
}

Result<void> BundleWriter::finish() {
  if (auto done = write(bytes_of(kEnd)); !done) return done;
  const Digest::Value sum = digest_->finish();
  const bool whole = std::fwrite(sum.data(), 1, sum.size(), file_.get()) == sum.size() &&
                     std::fflush(file_.get()) == 0 && ::rename(part_.c_str(), path_.c_str()) == 0;
  if (!whole) return invalid_argument(path_ + ": cannot be written: " + std::strerror(errno));
  file_.reset();
  return {};
}

namespace {

// Reads a bundle's parts in their order.
class Reader {
 public:
  Reader(wire::InputFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

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
  Result<void> check_end() {
    Digest::Value stored{};
    const Digest::Value sum = digest_.finish();
    if (!file_.read(stored.data(), stored.size()) || file_.remaining() != 0)
      return damaged("its end is not where it says");
    return stored == sum ? Result<void>() : damaged("its checksum differs");
  }
  size_t remaining() const { return file_.remaining(); }
  Error damaged(const std::string& what) const { return invalid_argument(path_ + ": no whole bundle: " + what); }

 private:
  wire::InputFile file_;
  std::string path_;
  Digest digest_;
};

Result<std::string> read_builder(Reader& reader) {
  std::array<char, sizeof kMagic> magic{};
  if (auto done = reader.read(std::as_writable_bytes(std::span(magic))); !done) return done.error();
  if (std::memcmp(magic.data(), kMagic, sizeof kMagic) != 0) return reader.damaged("it does not begin like one");
  auto size = reader.number<uint32_t>();
  if (!size) return size.error();
  if (*size > kMaxBuilder) return reader.damaged("the builder's name is too long");
  std::string builder(*size, 0);
  if (auto done = reader.read(std::as_writable_bytes(std::span(builder))); !done) return done.error();
  return builder;
}

}  // namespace

Result<size_t> read_bundle(const std::string& path, std::string_view builder_id, const TakeEntry& take) {
  auto file = wire::InputFile::open(path);
  if (!file) return file.error();
  Reader reader(std::move(*file), path);
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
      if (auto whole = reader.check_end(); !whole) return whole.error();
      return count;
    }
    if (*size > wire::kMaxEntrySize || *size > reader.remaining()) return reader.damaged("an entry is too long");
    bytes.resize(*size);
    if (auto done = reader.read(bytes); !done) return done.error();
    auto entry = wire::decode_entry(bytes);
    if (!entry) return reader.damaged("entry " + std::to_string(count) + ": " + entry.error().message);
    if (entry->builder != wire::builder_tag(builder_id)) return reader.damaged("an entry is of another compiler");
    if (auto done = take(bytes, *entry); !done) return done.error();
  }
}

}  // namespace kiln::cli
