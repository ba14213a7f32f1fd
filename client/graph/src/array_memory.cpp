#include "array_memory.h"

#include <cstring>

#include "blocks.h"
#include "kiln/client/npy.h"

namespace kiln::client {

int64_t count_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

bool is_plain(const ArrayView& array) {
  if (reinterpret_cast<uintptr_t>(array.data) % static_cast<size_t>(dsl::info(array.element).bytes) != 0) return false;
  if (array.strides.empty()) return true;
  int64_t expected = 1;
  for (size_t axis = array.shape.size(); axis-- > 0;) {
    if (array.shape[axis] == 0) return true;
    if (array.shape[axis] == 1) continue;
    if (array.strides[axis] != expected) return false;
    expected *= array.shape[axis];
  }
  return true;
}

void copy_plain(const ArrayView& array, std::byte* to) {
  const auto size = static_cast<int64_t>(dsl::info(array.element).bytes);
  const int64_t count = count_of(array.shape);
  if (count == 0) return;
  const auto* from = static_cast<const std::byte*>(array.data);
  const size_t rank = array.shape.size();
  if (array.strides.empty() || rank == 0) {
    std::memcpy(to, from, static_cast<size_t>(count * size));
    return;
  }
  const int64_t row = array.shape[rank - 1], step = array.strides[rank - 1];
  std::vector<int64_t> index(rank, 0);
  for (int64_t done = 0; done < count; done += row) {
    const std::byte* at = from;
    for (size_t axis = 0; axis + 1 < rank; ++axis) at += index[axis] * array.strides[axis] * size;
    if (step == 1) {
      std::memcpy(to, at, static_cast<size_t>(row * size));
      to += row * size;
    } else {
      for (int64_t i = 0; i < row; ++i, to += size) std::memcpy(to, at + i * step * size, static_cast<size_t>(size));
    }
    for (size_t axis = rank - 1; axis-- > 0 && ++index[axis] == array.shape[axis];) index[axis] = 0;
  }
}

std::string type_text(const ArrayView& array) {
  return std::string(dsl::info(array.element).name) + shape_text(array.shape);
}

Result<OwnedArray> OwnedArray::allocate(dsl::ElementType element, std::vector<int64_t> shape, int threads) {
  auto bytes = static_cast<int64_t>(dsl::info(element).bytes);
  for (const int64_t extent : shape) {
    if (extent < 0) return invalid_argument("an array of " + shape_text(shape) + ": an extent is below 0");
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > (int64_t{1} << 60)) {
      return error(ErrorCode::kOutOfMemory, "no memory for an array of " + shape_text(shape));
    }
  }
  auto block = Block::allocate(static_cast<uint64_t>(bytes), threads);
  if (!block) return block.error();
  return OwnedArray(element, std::move(shape), block->data, std::move(block->owner));
}

int64_t OwnedArray::count() const { return data_ == nullptr ? 0 : count_of(shape_); }

ArrayView OwnedArray::view(bool writable) const {
  return {.element = element_, .shape = shape_, .data = data_, .bytes = bytes(), .writable = writable, .owner = owner_};
}

}  // namespace kiln::client
