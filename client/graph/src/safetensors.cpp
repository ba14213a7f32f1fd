// The header is whoever's who wrote the file: each field is checked, then that the tensors fill what is behind it, one
// behind the other.
#include "kiln/client/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kiln/graph/ir.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/json.h"

namespace kiln::client {

struct SafeTensors::File {
  ~File() {
    if (memory != nullptr) ::munmap(memory, size);
  }
  std::string path;
  void* memory = nullptr;  // the whole file
  uint64_t size = 0;
  const std::byte* data = nullptr;  // behind the header
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

namespace {

using dsl::ElementType;
using Tensor = SafeTensors::Tensor;

constexpr uint64_t kLengthBytes = 8, kMostHeader = 16 << 20;

struct TypeName {
  const char* name;
  ElementType element;
};
constexpr TypeName kTypeNames[] = {
    {"BOOL", ElementType::kI1}, {"I8", ElementType::kI8},          {"I16", ElementType::kI16},
    {"I32", ElementType::kI32}, {"I64", ElementType::kI64},        {"U8", ElementType::kU8},
    {"U16", ElementType::kU16}, {"U32", ElementType::kU32},        {"U64", ElementType::kU64},
    {"F16", ElementType::kF16}, {"BF16", ElementType::kBF16},      {"F32", ElementType::kF32},
    {"F64", ElementType::kF64}, {"F8_E4M3", ElementType::kF8E4M3}, {"F8_E5M2", ElementType::kF8E5M2},
};

// A list of numbers of 0 or more that fit an int64_t.
Result<std::vector<int64_t>> read_numbers(const nlohmann::json& object, const char* field, size_t most) {
  const auto found = object.find(field);
  const auto bad = [&] { return invalid_argument("`" + std::string(field) + "` is no list of sizes"); };
  if (found == object.end() || !found->is_array() || found->size() > most) return bad();
  std::vector<int64_t> out;
  for (const nlohmann::json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) return bad();
    out.push_back(static_cast<int64_t>(number.get<uint64_t>()));
  }
  return out;
}

Result<Tensor> read_tensor(const std::string& name, const nlohmann::json& object) {
  if (!object.is_object()) return invalid_argument("it is no object");
  Tensor out{.name = name};
  const auto type = object.find("dtype");
  if (type == object.end() || !type->is_string()) return invalid_argument("it has no `dtype`");
  const auto* text = type->get_ptr<const std::string*>();
  const auto known = std::ranges::find_if(kTypeNames, [&](const TypeName& one) { return *text == one.name; });
  if (known == std::end(kTypeNames)) return invalid_argument("its type `" + text->substr(0, 32) + "` is not supported");
  out.element = known->element;
  auto shape = read_numbers(object, "shape", graph::kMaxRank);
  if (!shape) return shape.error();
  out.shape = std::move(*shape);
  auto places = read_numbers(object, "data_offsets", 2);
  if (!places) return places.error();
  if (places->size() != 2 || (*places)[0] > (*places)[1]) return invalid_argument("`data_offsets` are no two places");
  out.offset = static_cast<uint64_t>((*places)[0]);
  out.bytes = static_cast<uint64_t>((*places)[1]) - out.offset;
  uint64_t bytes = static_cast<uint64_t>(dsl::info(out.element).bytes);
  for (const int64_t extent : out.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) bytes = UINT64_MAX;
  }
  if (bytes != out.bytes) {
    return invalid_argument("its shape takes " + std::to_string(bytes) + " bytes, and it has " +
                            std::to_string(out.bytes));
  }
  return out;
}

Result<std::vector<Tensor>> read_tensors(const nlohmann::json& header, uint64_t data_bytes) {
  std::vector<Tensor> out;
  for (const auto& [name, object] : header.items()) {
    if (name == "__metadata__") continue;
    auto tensor = read_tensor(name, object);
    if (!tensor) return invalid_argument("tensor `" + name.substr(0, 128) + "`: " + tensor.error().message);
    out.push_back(std::move(*tensor));
  }
  std::ranges::sort(out, {}, [](const Tensor& tensor) { return std::pair(tensor.offset, tensor.bytes); });
  uint64_t end = 0;
  for (const Tensor& tensor : out) {
    if (tensor.offset != end) {
      return invalid_argument("tensor `" + tensor.name.substr(0, 128) + "` begins at " + std::to_string(tensor.offset) +
                              ", and the one before it ends at " + std::to_string(end));
    }
    end += tensor.bytes;
  }
  if (end == data_bytes) return out;
  return invalid_argument("its tensors take " + std::to_string(end) + " bytes, and it has " +
                          std::to_string(data_bytes));
}

Result<std::map<std::string, std::string>> read_metadata(const nlohmann::json& header) {
  std::map<std::string, std::string> out;
  const auto found = header.find("__metadata__");
  if (found == header.end()) return out;
  if (!found->is_object()) return invalid_argument("`__metadata__` is no object");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) return invalid_argument("`__metadata__` has what is no text");
    out.emplace(name, value.get<std::string>());
  }
  return out;
}

}  // namespace

Result<SafeTensors> SafeTensors::open(const std::string& path) { return open_part(path, 0, UINT64_MAX); }

Result<SafeTensors> SafeTensors::open_part(const std::string& path, uint64_t offset, uint64_t part) {
  const auto failed = [&](const std::string& what) { return invalid_argument(path + ": " + what); };
  const wire::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return failed(std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return failed("is no regular file");
  auto file = std::make_shared<File>();
  file->path = path;
  file->size = static_cast<uint64_t>(info.st_size);
  if (offset > file->size) return failed("it ends before its tensors");
  part = std::min(part, file->size - offset);
  if (part < kLengthBytes) return failed("not a .safetensors file: it is too short");
  void* memory = ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return failed(std::string("cannot be mapped: ") + std::strerror(errno));
  file->memory = memory;
  const auto* bytes = static_cast<const unsigned char*>(memory) + offset;
  uint64_t length = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{bytes[i]} << (8 * i);
  if (length > kMostHeader) return failed("not a .safetensors file, or its header is beyond 16 MiB");
  if (length > part - kLengthBytes) return failed("not a .safetensors file: it ends in its header");
  auto header = wire::parse_object({reinterpret_cast<const char*>(bytes + kLengthBytes), length});
  if (!header) return failed("its header: " + header.error().message);
  auto tensors = read_tensors(*header, part - kLengthBytes - length);
  if (!tensors) return failed(tensors.error().message);
  auto metadata = read_metadata(*header);
  if (!metadata) return failed(metadata.error().message);
  file->tensors = std::move(*tensors);
  file->metadata = std::move(*metadata);
  file->data = reinterpret_cast<const std::byte*>(bytes + kLengthBytes + length);
  return SafeTensors(std::move(file));
}

std::string safetensors_header(const std::vector<Tensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  uint64_t end = 0;
  for (const Tensor& tensor : tensors) {
    const auto known = std::ranges::find(kTypeNames, tensor.element, &TypeName::element);
    header[tensor.name] = {
        {"dtype", known->name}, {"shape", tensor.shape}, {"data_offsets", {end, end + tensor.bytes}}};
    end += tensor.bytes;
  }
  std::string text = wire::dump(header);
  text.resize((text.size() + kLengthBytes + 63) / 64 * 64 - kLengthBytes, ' ');
  std::string out(kLengthBytes, 0);
  for (uint64_t i = 0; i < kLengthBytes; ++i) out[i] = static_cast<char>(text.size() >> (8 * i));
  return out + text;
}

const std::vector<Tensor>& SafeTensors::tensors() const { return file_->tensors; }
const std::map<std::string, std::string>& SafeTensors::metadata() const { return file_->metadata; }

ArrayView SafeTensors::view(const Tensor& tensor) const {
  ArrayView out{.element = tensor.element, .shape = tensor.shape};
  out.data = file_->data + tensor.offset;
  out.bytes = tensor.bytes;
  out.owner = file_;
  return out;
}

Result<ArrayView> SafeTensors::find(std::string_view name) const {
  for (const Tensor& tensor : file_->tensors) {
    if (tensor.name == name) return view(tensor);
  }
  return error(ErrorCode::kNotFound, file_->path + " has no tensor `" + std::string(name) + "`");
}

}  // namespace kiln::client
