#include "model_bundle.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>

#include "bundle.h"
#include "kiln/client/safetensors.h"
#include "kiln/graph/binary.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/files.h"
#include "kiln/wire/json.h"
#include "kiln/wire/trusted.h"

namespace kiln::cli {
namespace {

using Bytes = std::span<const std::byte>;

constexpr char kMagic[8] = {'K', 'N', 'M', 'O', 'D', 'E', 'L', 1};
constexpr uint64_t kSha256 = 0, kHmac = 1, kAlignment = 64;
constexpr size_t kDigest = sizeof(Digest::Value), kMostHead = 16 << 20;

struct Start {
  char magic[8];
  uint64_t digest, head;  // its kind, and the bytes of what follows
};

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
uint64_t padding(uint64_t at) { return (kAlignment - at % kAlignment) % kAlignment; }

// A file in memory, which must not shrink meanwhile.
class Mapping {
 public:
  static Result<std::shared_ptr<const Mapping>> open(const std::string& path) {
    const auto failed = [&](const std::string& what) { return invalid_argument(path + ": " + what); };
    const wire::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info{};
    if (fd.get() < 0) return failed(std::string("cannot be opened: ") + std::strerror(errno));
    if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return failed("is no regular file");
    auto out = std::make_shared<Mapping>();
    const auto size = static_cast<size_t>(info.st_size);
    if (size == 0) return failed("is empty");
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory == MAP_FAILED) return failed(std::string("cannot be mapped: ") + std::strerror(errno));
    out->bytes_ = {static_cast<const std::byte*>(memory), size};
    return std::shared_ptr<const Mapping>(std::move(out));
  }
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// A file whose contents stay as they are while this lives, under a name of its own if need be.
struct Unchanging {
  std::string path;
  wire::UniqueFd copy;
};

// What others may write could be changed behind the look at its digest: it is copied first, into memory of this
// process.
Result<Unchanging> hold(const std::string& path) {
  if (wire::check_trusted(path)) return Unchanging{path, {}};
  const auto failed = [&](const std::string& what) { return invalid_argument(path + ": " + what); };
  const wire::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!file) return failed(std::string("cannot be opened: ") + std::strerror(errno));
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return failed("is no regular file");
  wire::UniqueFd copy(::memfd_create("bundle", MFD_CLOEXEC));
  for (auto left = static_cast<size_t>(info.st_size); left > 0;) {
    const ssize_t moved = copy ? ::sendfile(copy.get(), file.get(), nullptr, left) : -1;
    if (moved < 0 && copy && errno == EINTR) continue;
    if (moved < 0) return failed(std::string("cannot be copied: ") + std::strerror(errno));
    if (moved == 0) break;  // it is shorter by now, and will not have its digest
    left -= static_cast<size_t>(moved);
  }
  std::string name = "/proc/self/fd/" + std::to_string(copy.get());
  return Unchanging{std::move(name), std::move(copy)};
}

std::string hex_of(Bytes bytes) {
  Digest digest("");
  digest.add(bytes);
  std::string out;
  for (const uint8_t byte : digest.value()) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

Result<std::string> hex_of_file(const std::string& path) {
  auto file = Mapping::open(path);
  if (!file) return file.error();
  return hex_of((*file)->bytes());
}

// --- Writing ------------------------------------------------------------------------------------------------------

// Values as tensors of a safetensors file; what is the same memory in the same form is there once.
struct Values {
  std::vector<client::SafeTensors::Tensor> tensors;
  std::vector<graph::Array> arrays;         // of the tensors, row-major
  std::map<std::string, std::string> same;  // names that are other names' tensors
};

graph::Array row_major(const graph::Array& array) {
  graph::Array out = graph::own(array.element, array.shape);
  if (array.strides == out.strides) return array;
  for (int64_t i = 0; i < array.count(); ++i) graph::set_bits(out, i, array.bits(i));
  return out;
}

Values values_of(const Program& program) {
  using Form = std::tuple<const void*, dsl::ElementType, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Form, std::string> seen;
  Values out;
  for (const auto& [name, view] : program.values) {
    const graph::Array array = borrowed(view);
    const auto [first, is_new] = seen.emplace(Form{array.data, array.element, array.shape, array.strides}, name);
    if (!is_new) {
      out.same.emplace(name, first->second);
      continue;
    }
    out.arrays.push_back(row_major(array));
    const uint64_t bytes = static_cast<uint64_t>(array.count()) * static_cast<uint64_t>(dsl::info(array.element).bytes);
    out.tensors.push_back({.name = name, .element = array.element, .shape = array.shape, .bytes = bytes});
  }
  return out;
}

}  // namespace

bool is_model_bundle(const std::string& file) {
  auto in = wire::InputFile::open(file);
  char magic[sizeof kMagic];
  return in && in->read(magic, sizeof magic) && std::memcmp(magic, kMagic, sizeof magic - 1) == 0;
}

Result<void> write_model_bundle(const std::string& path, const Program& program, const std::vector<BundledCode>& codes,
                                const std::string& weights_file, const std::string& key) {
  nlohmann::json head = {{"weights", program.weights}, {"codes", nlohmann::json::array()}};
  const std::vector<std::byte> graph = graph::encode(program.graph);
  head["graph_bytes"] = graph.size();
  for (const BundledCode& code : codes)
    head["codes"].push_back({{"target", code.target}, {"bytes", code.package.size()}});
  Values values;
  std::string header;
  if (weights_file.empty()) {
    values = values_of(program);
    header = client::safetensors_header(values.tensors);
    head["same"] = values.same;
  } else {
    auto digest = hex_of_file(weights_file);
    if (!digest) return digest.error();
    head["file"] = std::filesystem::path(weights_file).filename().string();
    head["file_sha256"] = *digest;
  }
  const std::string words = wire::dump(head);
  Start start{.magic = {}, .digest = key.empty() ? kSha256 : kHmac, .head = words.size()};
  std::memcpy(start.magic, kMagic, sizeof kMagic);
  std::vector<Bytes> pieces = {std::as_bytes(std::span(&start, 1)), bytes_of(words), Bytes(graph)};
  for (const BundledCode& code : codes) pieces.push_back(bytes_of(code.package));
  uint64_t size = 0;
  for (const Bytes piece : pieces) size += piece.size();
  constexpr std::byte kZeros[kAlignment] = {};
  pieces.push_back(Bytes(kZeros).first(padding(size)));
  pieces.push_back(bytes_of(header));
  for (size_t i = 0; i < values.tensors.size(); ++i)
    pieces.emplace_back(values.arrays[i].data, values.tensors[i].bytes);
  Digest digest(key);
  for (const Bytes piece : pieces) digest.add(piece);
  const Digest::Value end = digest.value();
  pieces.push_back(std::as_bytes(std::span(end)));
  return wire::write_file(path, pieces);
}

// --- Reading ------------------------------------------------------------------------------------------------------

namespace {

// Takes a file's parts one behind the other.
class Parts {
 public:
  Parts(Bytes bytes, std::string path) : rest_(bytes), path_(std::move(path)) {}

  Result<Bytes> take(uint64_t size, const char* what) {
    if (size > rest_.size()) return damaged(std::string("it ends in ") + what);
    const Bytes out = rest_.first(size);
    rest_ = rest_.subspan(size);
    taken_ += size;
    return out;
  }
  uint64_t taken() const { return taken_; }
  uint64_t rest() const { return rest_.size(); }
  Error damaged(const std::string& what) const { return invalid_argument(path_ + ": no whole bundle: " + what); }

 private:
  Bytes rest_;
  std::string path_;
  uint64_t taken_ = 0;
};

// That the file is as it was written, and its first bytes.
Result<Start> check(Bytes file, const Parts& parts, const std::string& path, const std::string& key) {
  Start start{};
  if (file.size() < sizeof start + kDigest) return parts.damaged("it is too short");
  std::memcpy(&start, file.data(), sizeof start);
  if (std::memcmp(start.magic, kMagic, sizeof kMagic) != 0) return parts.damaged("it is of another version");
  if (start.digest != kSha256 && start.digest != kHmac) return parts.damaged("it has a digest of another kind");
  if (start.digest != (key.empty() ? kSha256 : kHmac)) {
    return error(ErrorCode::kPermissionDenied, path + (key.empty() ? ": it is authenticated by a key: give --key"
                                                                   : ": it is not authenticated by a key"));
  }
  Digest digest(key);
  digest.add(file.first(file.size() - kDigest));
  const Digest::Value expected = digest.value();
  if (CRYPTO_memcmp(file.data() + file.size() - kDigest, expected.data(), kDigest) == 0) return start;
  return key.empty() ? parts.damaged("its checksum differs")
                     : error(ErrorCode::kPermissionDenied, path + ": it is not authenticated by this key");
}

Result<void> read_values(const nlohmann::json& head, const client::SafeTensors& file, Program& program) {
  for (const auto& tensor : file.tensors()) program.values.emplace(tensor.name, file.view(tensor));
  wire::Fields fields(head);
  for (const auto& [name, other] : fields.object("same").items()) {
    auto value = file.find(other.is_string() ? other.get<std::string>() : "");
    if (!value) return value.error();
    program.values.emplace(name, std::move(*value));
  }
  return {};
}

// The values of the `.pt2` beside the bundle, if that is the one that it was made of.
Result<void> read_values_beside(const std::string& bundle, const std::string& name, const std::string& digest,
                                Program& program) {
  const std::string path =
      (std::filesystem::path(bundle).parent_path() / std::filesystem::path(name).filename()).string();
  auto held = hold(path);
  if (!held) return held.error();
  auto found = hex_of_file(held->path);
  if (!found) return found.error();
  if (*found != digest) return invalid_argument(path + ": another file than " + bundle + " was made with");
  auto other = load_model(held->path);
  if (!other) return other.error();
  program.values = std::move(other->values);
  return {};
}

}  // namespace

Result<BundledModel> read_model_bundle(const std::string& path, const std::string& key) {
  auto held = key.empty() ? Result<Unchanging>(Unchanging{path, {}}) : hold(path);
  if (!held) return held.error();
  auto file = Mapping::open(held->path);
  if (!file) return file.error();
  const Bytes bytes = (*file)->bytes();
  Parts parts(bytes.first(bytes.size() - std::min(bytes.size(), kDigest)), path);
  auto start = check(bytes, parts, path, key);
  if (!start) return start.error();
  if (start->head > kMostHead) return parts.damaged("its head is too long");
  (void)parts.take(sizeof *start, "its first bytes");
  auto words = parts.take(start->head, "its head");
  if (!words) return words.error();
  auto head = wire::parse_object({reinterpret_cast<const char*>(words->data()), words->size()});
  if (!head) return parts.damaged("its head: " + head.error().message);
  wire::Fields fields(*head);
  auto encoded = parts.take(fields.number("graph_bytes"), "its graph");
  if (!encoded) return encoded.error();
  auto graph = graph::decode(*encoded);
  if (!graph) return parts.damaged("its graph: " + graph.error().message);
  BundledModel out{.program = {.graph = std::move(*graph), .values = {}, .weights = {}}, .codes = {}, .owner = *file};
  for (const auto& name : fields.texts("weights")) out.program.weights.push_back(name.get<std::string>());
  for (const auto& code : fields.objects("codes")) {
    wire::Fields one(code);
    auto package = parts.take(one.number("bytes"), "its code");
    if (!package) return package.error();
    out.codes.push_back({one.text("target"), *package});
    if (!one.ok()) return parts.damaged("its head: " + one.error().message);
  }
  const std::string name = fields.text("file"), digest = fields.text("file_sha256");
  if (!fields.ok()) return parts.damaged("its head: " + fields.error().message);
  if (auto gap = parts.take(padding(parts.taken()), "its code"); !gap) return gap.error();
  if (!name.empty()) {
    if (auto read = read_values_beside(path, name, digest, out.program); !read) return read.error();
    return out;
  }
  auto values = client::SafeTensors::open_part(held->path, parts.taken(), parts.rest());
  if (!values) return values.error();
  if (auto read = read_values(*head, *values, out.program); !read) return read.error();
  return out;
}

}  // namespace kiln::cli
