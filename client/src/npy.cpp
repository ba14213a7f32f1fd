#include "kiln/client/npy.h"

#include <cstring>

#include "kiln/wire/files.h"

namespace kiln::client {
namespace {

using dsl::ElementType;

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr size_t kMaxHeader = 64 << 10;
constexpr size_t kMaxRank = 32;
constexpr size_t kArrayAlignment = 64;

// Bytes of an element; 0 where the dtype is none of ours.
size_t dtype_size(const std::string& dtype) {
  static constexpr const char* kKnown[] = {"<f2", "<f4", "<f8", "|i1", "<i2", "<i4",
                                           "<i8", "|u1", "<u2", "<u4", "<u8", "|b1"};
  for (const char* known : kKnown) {
    if (dtype == known) return static_cast<size_t>(known[2] - '0');
  }
  return 0;
}

struct Header {
  std::string dtype;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // False for anything that is not such a dictionary with exactly these keys.
  bool parse(Header& out) {
    bool descr = false, order = false, shape = false;
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return false;
      bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : key == "shape" ? &shape : nullptr;
      if (seen == nullptr || *seen) return false;
      *seen = true;
      if (seen == &descr ? !quoted(out.dtype) : seen == &order ? !boolean(out.fortran_order) : !tuple(out.shape)) {
        return false;
      }
      if (!take(',') && !peek('}')) return false;
    }
    skip_space();
    return at_ == text_.size() && descr && order && shape;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool peek(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  bool quoted(std::string& out) {
    if (!peek('\'') && !peek('"')) return false;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return false;
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  bool boolean(bool& out) {
    skip_space();
    out = text_.substr(at_, 4) == "True";
    if (!out && text_.substr(at_, 5) != "False") return false;
    at_ += out ? 4 : 5;
    return true;
  }
  bool number(int64_t& out) {
    skip_space();
    const size_t start = at_;
    for (out = 0; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(out, 10, &out) || __builtin_add_overflow(out, text_[at_] - '0', &out)) return false;
    }
    return at_ > start;
  }
  bool tuple(std::vector<int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      int64_t extent = 0;
      if (out.size() == kMaxRank || !number(extent)) return false;
      out.push_back(extent);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool size_of(const std::vector<int64_t>& shape, size_t element, size_t& bytes) {
  bytes = element;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes)) return false;
  }
  return bytes <= static_cast<size_t>(PTRDIFF_MAX) - kArrayAlignment;
}

Error bad_file(const std::string& path, const std::string& what) { return invalid_argument(path + ": " + what); }

// Reads and checks everything before the data.
Result<Header> read_header(const std::string& path, wire::InputFile& file) {
  unsigned char start[12];
  if (!file.read(start, 10) || std::memcmp(start, kMagic, kMagicSize) != 0) return bad_file(path, "not a .npy file");
  const int major = start[6];
  size_t length = start[8] | static_cast<size_t>(start[9]) << 8;
  if (major == 2) {
    if (!file.read(start + 10, 2)) return bad_file(path, "not a .npy file: it ends in its header");
    length |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
  } else if (major != 1) {
    return bad_file(path, ".npy version " + std::to_string(major) + " is not supported (1 and 2 are)");
  }
  if (length > kMaxHeader) return bad_file(path, "the .npy header is too long");
  std::string text(length, ' ');
  if (!file.read(text.data(), length)) return bad_file(path, "not a .npy file: it ends in its header");
  Header header;
  if (!HeaderParser(text).parse(header)) return bad_file(path, "malformed .npy header");
  if (dtype_size(header.dtype) == 0) {
    return bad_file(
        path, "dtype '" + header.dtype.substr(0, 32) + "' is not supported; use a little-endian int, float or bool");
  }
  if (header.fortran_order) return bad_file(path, "Fortran order is not supported; store the array in C order");
  return header;
}

}  // namespace

int64_t NpyArray::count() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

Result<void> NpyArray::allocate(size_t size) {
  bytes = size;
  const size_t rounded = (size / kArrayAlignment + 1) * kArrayAlignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kArrayAlignment, rounded)));
  if (!data_) return error(ErrorCode::kOutOfMemory, "no memory for " + std::to_string(size) + " bytes");
  return {};
}

Result<NpyArray> NpyArray::make(std::vector<int64_t> shape, ElementType type) {
  NpyArray array;
  array.dtype = npy_dtype(type);
  size_t bytes = 0;
  if (!size_of(shape, static_cast<size_t>(dsl::info(type).bytes), bytes)) {
    return invalid_argument("an array of shape " + shape_text(shape) + " is too large");
  }
  array.shape = std::move(shape);
  if (auto done = array.allocate(bytes); !done) return done.error();
  std::memset(array.data(), 0, bytes);
  return array;
}

std::string npy_dtype(ElementType type) {
  switch (type) {
    case ElementType::kI1:
      return "|b1";
    case ElementType::kI8:
      return "|i1";
    case ElementType::kI16:
      return "<i2";
    case ElementType::kI32:
      return "<i4";
    case ElementType::kI64:
      return "<i8";
    case ElementType::kU8:
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
      return "|u1";
    case ElementType::kU16:
    case ElementType::kBF16:
      return "<u2";
    case ElementType::kU32:
      return "<u4";
    case ElementType::kU64:
      return "<u8";
    case ElementType::kF16:
      return "<f2";
    case ElementType::kF32:
      return "<f4";
    case ElementType::kF64:
      return "<f8";
  }
  return "";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out;
  for (int64_t extent : shape) out += (out.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + out + "]";
}

Result<NpyArray> read_npy(const std::string& path) {
  auto file = wire::InputFile::open(path);
  if (!file) return file.error();
  auto header = read_header(path, *file);
  if (!header) return header.error();
  NpyArray array;
  array.dtype = header->dtype;
  array.shape = std::move(header->shape);
  size_t bytes = 0;
  // The file's own size bounds what is allocated, whatever the header claims.
  if (!size_of(array.shape, dtype_size(array.dtype), bytes) || bytes != file->remaining()) {
    return bad_file(path, "the shape " + shape_text(array.shape) + " of " + array.dtype + " disagrees with the " +
                              std::to_string(file->remaining()) + " bytes of data in the file");
  }
  if (auto done = array.allocate(bytes); !done) return bad_file(path, done.error().message);
  if (!file->read(array.data(), bytes)) return bad_file(path, "cannot be read to its end");
  return array;
}

Result<void> write_npy(const std::string& path, const NpyArray& array) {
  std::string shape;
  for (int64_t extent : array.shape) shape += std::to_string(extent) + ", ";
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string header = "{'descr': '" + array.dtype + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // Padded so that the data begins at a multiple of 64.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string start(kMagic, kMagicSize);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  start += header;
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), {array.data(), array.bytes}};
  return wire::write_file(path, pieces);
}

}  // namespace kiln::client
