// DLPack in and out. What was taken over has a deleter that says so: it is not taken twice, and who calls its deleter
// all the same does no harm.
#include "dlpack.h"

#include <algorithm>
#include <utility>

#include "arrays.h"
#include "errors.h"

namespace kiln::c {
namespace {

using dlpack::Managed;
using dlpack::ManagedVersioned;
using dsl::ElementType;

struct TypeCode {
  ElementType element;
  dlpack::Code code;
};
constexpr TypeCode kTypeCodes[] = {
    {ElementType::kI1, dlpack::kBool},           {ElementType::kI8, dlpack::kInt},
    {ElementType::kI16, dlpack::kInt},           {ElementType::kI32, dlpack::kInt},
    {ElementType::kI64, dlpack::kInt},           {ElementType::kU8, dlpack::kUnsigned},
    {ElementType::kU16, dlpack::kUnsigned},      {ElementType::kU32, dlpack::kUnsigned},
    {ElementType::kU64, dlpack::kUnsigned},      {ElementType::kF16, dlpack::kFloat},
    {ElementType::kBF16, dlpack::kBfloat},       {ElementType::kF32, dlpack::kFloat},
    {ElementType::kF64, dlpack::kFloat},         {ElementType::kF8E4M3, dlpack::kFloat8E4M3},
    {ElementType::kF8E5M2, dlpack::kFloat8E5M2},
};
int bits_in_memory(ElementType element) { return 8 * dsl::info(element).bytes; }

Result<ElementType> element_of(const dlpack::Tensor& tensor) {
  for (const TypeCode& known : kTypeCodes) {
    const bool same = known.code == tensor.dtype.code && bits_in_memory(known.element) == tensor.dtype.bits;
    if (same && tensor.dtype.lanes == 1) return known.element;
  }
  return invalid_argument("the DLPack tensor has elements that Kiln does not have: code " +
                          std::to_string(tensor.dtype.code) + ", " + std::to_string(tensor.dtype.bits) + " bits, " +
                          std::to_string(tensor.dtype.lanes) + " lanes");
}

Result<Place> place_of(const dlpack::Tensor& tensor) {
  switch (tensor.device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
    case dlpack::kRocmHost:
    case dlpack::kCudaManaged:
      return Place{};
    case dlpack::kCuda:
      return Place{KILN_CUDA, tensor.device.id};
    case dlpack::kRocm:
      return Place{KILN_AMD, tensor.device.id};
    default:
      return invalid_argument("the DLPack tensor is on a device of type " + std::to_string(tensor.device.type) +
                              ", which Kiln does not have");
  }
}

// Without an owner yet.
Result<std::unique_ptr<TensorObject>> read_tensor(const dlpack::Tensor& tensor, bool writable) {
  auto element = element_of(tensor);
  if (!element) return element.error();
  auto place = place_of(tensor);
  if (!place) return place.error();
  kiln_array array{};
  array.data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  array.shape = tensor.shape;
  array.strides = tensor.strides;
  array.rank = tensor.ndim;
  array.type = type_of(*element);
  array.device = place->device;
  array.ordinal = place->ordinal;
  array.flags = writable ? KILN_WRITABLE : 0;
  ArrayView view;
  if (auto read = read_array(array, {"DLPack tensor", 0}, *place, view); !read) return read.error();
  return std::make_unique<TensorObject>(std::move(view), *place);
}

template <class T>
void was_taken(T*) {}

// Gives a tensor of another library back in the end.
template <class T>
struct Taken {
  T* managed = nullptr;
  void (*deleter)(T*) = nullptr;
  ~Taken() {
    if (managed == nullptr) return;
    managed->deleter = deleter;
    if (deleter != nullptr) deleter(managed);
  }
};

template <class T>
Result<void> take(T* managed, bool writable, kiln_tensor** tensor) {
  if (managed->deleter == &was_taken<T>) return invalid_argument("the DLPack tensor was taken over before");
  auto made = read_tensor(managed->tensor, writable);
  if (!made) return made.error();
  auto taken = std::make_shared<Taken<T>>();
  (*made)->view.owner = taken;
  *tensor = publish<kiln_tensor>(std::move(*made));
  // Nothing fails any more.
  taken->managed = managed;
  taken->deleter = std::exchange(managed->deleter, &was_taken<T>);
  return {};
}

// What a tensor for another library needs, in one piece with it.
template <class T>
struct Exported {
  T managed{};
  ArrayView view;  // with its owner
  std::vector<int64_t> strides;
};

template <class T>
T* export_tensor(const TensorObject& object) {
  auto out = std::make_unique<Exported<T>>();
  out->view = object.view;
  out->strides = object.view.strides;
  if (out->strides.empty()) {
    out->strides.resize(out->view.shape.size());
    int64_t step = 1;
    for (size_t axis = out->strides.size(); axis-- > 0; step *= std::max<int64_t>(out->view.shape[axis], 1)) {
      out->strides[axis] = step;
    }
  }
  dlpack::Tensor& tensor = out->managed.tensor;
  tensor.data = const_cast<void*>(out->view.data);
  tensor.device = {object.place.device == KILN_CUDA  ? dlpack::kCuda
                   : object.place.device == KILN_AMD ? dlpack::kRocm
                                                     : dlpack::kCpu,
                   object.place.ordinal};
  tensor.ndim = static_cast<int32_t>(out->view.shape.size());
  for (const TypeCode& known : kTypeCodes) {
    if (known.element != out->view.element) continue;
    tensor.dtype = {known.code, static_cast<uint8_t>(bits_in_memory(known.element)), 1};
  }
  tensor.shape = out->view.shape.data();
  tensor.strides = out->strides.data();
  out->managed.context = out.get();
  out->managed.deleter = [](T* self) { delete static_cast<Exported<T>*>(self->context); };
  return &out.release()->managed;
}

}  // namespace

extern "C" {

kiln_status kiln_tensor_from_dlpack(void* managed, int32_t is_versioned, kiln_tensor** tensor) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(managed, "managed"); !fine) return fine;
    if (auto fine = check_pointer(tensor, "tensor"); !fine) return fine;
    if (is_versioned == 0) return take(static_cast<Managed*>(managed), true, tensor);
    auto* versioned = static_cast<ManagedVersioned*>(managed);
    if (versioned->version.major != dlpack::kMajorVersion) {
      return error(ErrorCode::kVersionMismatch,
                   "the tensor is of DLPack " + std::to_string(versioned->version.major) + ", and Kiln knows 1");
    }
    return take(versioned, (versioned->flags & dlpack::kReadOnly) == 0, tensor);
  });
}

kiln_status kiln_tensor_to_dlpack(kiln_tensor* tensor, int32_t is_versioned, void** managed) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(managed, "managed"); !fine) return fine;
    auto object = pin<TensorObject>(tensor, "tensor");
    if (!object) return object.error();
    const bool writable = (*object)->view.writable;
    if (is_versioned == 0) {
      if (!writable) return invalid_argument("the tensor is read only, which DLPack says from version 1 on");
      *managed = export_tensor<Managed>(**object);
      return {};
    }
    auto* made = export_tensor<ManagedVersioned>(**object);
    made->version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
    made->flags = writable ? 0 : dlpack::kReadOnly;
    *managed = made;
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
