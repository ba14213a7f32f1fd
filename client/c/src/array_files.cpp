// Arrays in files: `.npy` and `.safetensors`.
#include <cstring>

#include "arrays.h"
#include "errors.h"
#include "kiln/client/npy.h"

namespace kiln::c {
namespace {

// What NumPy's name for a type holds, by the file alone.
Result<dsl::ElementType> element_of_dtype(const std::string& dtype) {
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto element = static_cast<dsl::ElementType>(i);
    const bool is_own = element != dsl::ElementType::kBF16 && element != dsl::ElementType::kF8E4M3 &&
                        element != dsl::ElementType::kF8E5M2;
    if (is_own && client::npy_dtype(element) == dtype) return element;
  }
  return invalid_argument("dtype '" + dtype + "' is not supported");
}

Result<void> check_plain(const ArrayView& view) {
  int64_t expected = 1;
  for (size_t axis = view.strides.size(); axis-- > 0; expected *= view.shape[axis]) {
    if (view.shape[axis] != 1 && view.strides[axis] != expected) {
      return invalid_argument("`array` is not row-major: copy it first");
    }
  }
  return {};
}

}  // namespace

extern "C" {

kiln_status kiln_tensor_read_npy(const char* path, kiln_type type, kiln_tensor** tensor) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    if (auto fine = check_pointer(tensor, "tensor"); !fine) return fine;
    auto read = client::read_npy(path);
    if (!read) return read.error();
    auto element = type == KILN_NO_TYPE ? element_of_dtype(read->dtype) : element_of(type, "type");
    if (!element) return element.error();
    if (client::npy_dtype(*element) != read->dtype) {
      return invalid_argument(std::string(path) + ": its dtype is '" + read->dtype + "', and " +
                              std::string(dsl::info(*element).name) + " is '" + client::npy_dtype(*element) + "'");
    }
    auto kept = std::make_shared<client::NpyArray>(std::move(*read));
    ArrayView view{.element = *element, .shape = kept->shape};
    view.data = kept->data();
    view.bytes = kept->bytes;
    view.writable = true;
    view.owner = kept;
    give<TensorObject>(tensor, std::move(view), Place{});
    return {};
  });
}

kiln_status kiln_array_write_npy(const kiln_array* array, const char* path) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(array, "array"); !fine) return fine;
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    ArrayView view;
    if (auto read = read_array(*array, {"array", 0}, Place{}, view); !read) return read;
    if (auto plain = check_plain(view); !plain) return plain;
    auto out = client::NpyArray::make(view.shape, view.element);
    if (!out) return out.error();
    if (out->bytes > 0 && view.data == nullptr) return invalid_argument("`array` has no data");
    if (out->bytes > view.bytes) return invalid_argument("`array` has fewer bytes than its shape takes");
    if (out->bytes > 0) std::memcpy(out->data(), view.data, out->bytes);
    return client::write_npy(path, *out);
  });
}

kiln_status kiln_safetensors_open(const char* path, kiln_safetensors** file) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(path, "path"); !fine) return fine;
    if (auto fine = check_pointer(file, "file"); !fine) return fine;
    auto opened = SafeTensors::open(path);
    if (!opened) return opened.error();
    give<SafetensorsObject>(file, std::move(*opened));
    return {};
  });
}

size_t kiln_safetensors_count(kiln_safetensors* file) {
  return guarded_value<size_t>(0, [&](size_t& out) -> Result<void> {
    auto object = pin<SafetensorsObject>(file, "file");
    if (!object) return object.error();
    out = (*object)->file.tensors().size();
    return {};
  });
}

const char* kiln_safetensors_name(kiln_safetensors* file, size_t index) {
  return guarded_value<const char*>(nullptr, [&](const char*& out) -> Result<void> {
    auto object = pin<SafetensorsObject>(file, "file");
    if (!object) return object.error();
    const auto& tensors = (*object)->file.tensors();
    if (index < tensors.size()) out = tensors[index].name.c_str();
    return {};
  });
}

kiln_status kiln_safetensors_get(kiln_safetensors* file, const char* name, kiln_tensor** tensor) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(name, "name"); !fine) return fine;
    if (auto fine = check_pointer(tensor, "tensor"); !fine) return fine;
    auto object = pin<SafetensorsObject>(file, "file");
    if (!object) return object.error();
    auto found = (*object)->file.find(name);
    if (!found) return found.error();
    give<TensorObject>(tensor, std::move(*found), Place{});
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
