// Arrays that keep their memory.
#include "arrays.h"
#include "errors.h"

namespace kiln::c {

extern "C" {

kiln_status kiln_tensor_allocate(kiln_type type, int32_t rank, const int64_t* shape, kiln_tensor** tensor) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(tensor, "tensor"); !fine) return fine;
    auto element = element_of(type, "type");
    if (!element) return element.error();
    if (rank < 0 || rank > KILN_MAX_RANK) return invalid_argument("`rank` is " + std::to_string(rank));
    if (auto fine = check_pointer(shape, static_cast<size_t>(rank), "shape"); !fine) return fine;
    auto array = OwnedArray::allocate(*element, std::vector<int64_t>(shape, shape + rank));
    if (!array) return array.error();
    give<TensorObject>(tensor, array->donate(), Place{});
    return {};
  });
}

kiln_status kiln_tensor_array(kiln_tensor* tensor, kiln_array* array) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(array, "array"); !fine) return fine;
    auto object = pin<TensorObject>(tensor, "tensor");
    if (!object) return object.error();
    *array = show_array((*object)->view, (*object)->place);
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
