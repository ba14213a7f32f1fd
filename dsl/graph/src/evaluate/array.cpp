// Arrays of the evaluator: elements by place, views, copies.
#include <algorithm>

#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_cast.h"

namespace kiln::graph {
namespace {

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

const std::byte* address(const Array& array, int64_t place) {
  int64_t offset = 0;
  for (size_t axis = array.shape.size(); axis-- > 0;) {
    offset += place % array.shape[axis] * array.strides[axis];
    place /= array.shape[axis];
  }
  return array.data + offset * dsl::info(array.element).bytes;
}

}  // namespace

int64_t Array::count() const { return evaluator::count_of(shape); }

uint64_t Array::bits(int64_t place) const {
  uint64_t bits = 0;
  std::memcpy(&bits, address(*this, place), static_cast<size_t>(dsl::info(element).bytes));
  return bits;
}

double Array::number(int64_t place) const {
  const uint64_t word = bits(place);
  return dsl::is_float(element) ? dsl::double_from_bits(element, word)
                                : static_cast<double>(dsl::scalar::wide_from_bits(dsl::info(element), word));
}

Array own(ElementType element, std::vector<int64_t> shape) {
  Array out{element, std::move(shape), {}, nullptr, nullptr};
  out.strides = row_major(out.shape);
  const size_t bytes = static_cast<size_t>(out.count()) * static_cast<size_t>(dsl::info(element).bytes);
  out.storage = std::make_shared<std::vector<std::byte>>(std::max<size_t>(bytes, 8));  // an address even of nothing
  out.data = out.storage->data();
  return out;
}

void set_bits(Array& array, int64_t place, uint64_t bits) {
  std::memcpy(const_cast<std::byte*>(address(array, place)), &bits,
              static_cast<size_t>(dsl::info(array.element).bytes));
}

Array array_of(ElementType element, std::vector<int64_t> shape, const std::vector<double>& numbers) {
  Array out = own(element, std::move(shape));
  for (int64_t i = 0; i < out.count(); ++i) {
    set_bits(out, i, dsl::bits_from_double(element, numbers[static_cast<size_t>(i)]));
  }
  return out;
}

namespace evaluator {

bool is_contiguous(const Array& array) {
  int64_t stride = 1;
  for (size_t axis = array.shape.size(); axis-- > 0;) {
    if (array.shape[axis] != 1 && array.strides[axis] != stride) return false;
    stride *= array.shape[axis];
  }
  return true;
}

template <size_t kCount>
void for_rows(const Extents& shape, const std::array<const Array*, kCount>& arrays,
              FunctionRef<void(const Rows<kCount>& rows, int64_t count)> function) {
  if (count_of(shape) == 0) return;
  Rows<kCount> rows;
  std::array<std::vector<int64_t>, kCount> strides;
  bool contiguous = true;
  for (size_t i = 0; i < kCount; ++i) {
    const int64_t bytes = dsl::info(arrays[i]->element).bytes;
    rows.data[i] = arrays[i]->data;
    for (const int64_t stride : arrays[i]->strides) strides[i].push_back(stride * bytes);
    rows.step[i] = strides[i].empty() ? bytes : strides[i].back();
    contiguous = contiguous && is_contiguous(*arrays[i]);
  }
  if (shape.empty() || contiguous) {
    for (size_t i = 0; i < kCount; ++i) rows.step[i] = dsl::info(arrays[i]->element).bytes;
    return function(rows, count_of(shape));
  }
  const Extents outer(shape.begin(), shape.end() - 1);
  Extents index(outer.size(), 0);
  do {
    for (size_t i = 0; i < kCount; ++i) {
      rows.data[i] = arrays[i]->data;
      for (size_t axis = 0; axis < outer.size(); ++axis) rows.data[i] += index[axis] * strides[i][axis];
    }
    function(rows, shape.back());
  } while (next_index(index, outer));
}

template void for_rows<1>(const Extents&, const std::array<const Array*, 1>&,
                          FunctionRef<void(const Rows<1>&, int64_t)>);
template void for_rows<2>(const Extents&, const std::array<const Array*, 2>&,
                          FunctionRef<void(const Rows<2>&, int64_t)>);
template void for_rows<3>(const Extents&, const std::array<const Array*, 3>&,
                          FunctionRef<void(const Rows<3>&, int64_t)>);
template void for_rows<4>(const Extents&, const std::array<const Array*, 4>&,
                          FunctionRef<void(const Rows<4>&, int64_t)>);

std::vector<uint64_t> all_bits(const Array& array) {
  std::vector<uint64_t> out;
  out.reserve(static_cast<size_t>(array.count()));
  with_bytes(array.element, [&](auto bytes) {
    for_rows<1>(array.shape, {&array}, [&](const Rows<1>& row, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out.push_back(load<bytes>(row.data[0] + i * row.step[0]));
    });
  });
  return out;
}

void store_all(Array& out, std::span<const uint64_t> bits) {
  with_bytes(out.element, [&](auto bytes) {
    std::byte* at = bytes_of(out);
    for (size_t i = 0; i < bits.size(); ++i) store<bytes>(at + i * bytes, bits[i]);
  });
}

void copy(const Array& from, Array& to) {
  with_bytes(from.element, [&](auto bytes) {
    for_rows<2>(from.shape, {&from, &to}, [&](const Rows<2>& rows, int64_t count) {
      auto* out = const_cast<std::byte*>(rows.data[1]);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(out + i * rows.step[1], rows.data[0] + i * rows.step[0], bytes);
      }
    });
  });
}

Array contiguous(const Array& array) {
  Array out = own(array.element, array.shape);
  copy(array, out);
  return out;
}

Array converted(const Array& array, ElementType to) {
  if (array.element == to) return array;
  Array out = own(to, array.shape);
  std::vector<uint64_t> bits = all_bits(array);
  with_cast(array.element, to, [&](auto convert) {
    for (uint64_t& word : bits) word = convert(word);
  });
  store_all(out, bits);
  return out;
}

Array reshaped(const Array& array, Extents shape) {
  Array out = is_contiguous(array) ? array : contiguous(array);
  out.strides = row_major(shape);
  out.shape = std::move(shape);
  return out;
}

Array permuted(const Array& array, std::span<const int64_t> order) {
  Array out = array;
  for (size_t i = 0; i < order.size(); ++i) {
    out.shape[i] = array.shape[static_cast<size_t>(order[i])];
    out.strides[i] = array.strides[static_cast<size_t>(order[i])];
  }
  return out;
}

Array broadcast_view(const Array& array, const Extents& shape) {
  Array out = array;
  out.strides.assign(shape.size(), 0);
  const size_t missing = shape.size() - array.shape.size();
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    if (array.shape[axis] == shape[axis + missing]) out.strides[axis + missing] = array.strides[axis];
  }
  out.shape = shape;
  return out;
}

Array sliced(const Array& array, size_t axis, int64_t start, int64_t count, int64_t step) {
  Array out = array;
  if (count > 0) out.data += start * array.strides[axis] * dsl::info(array.element).bytes;
  out.shape[axis] = count;
  out.strides[axis] *= step;
  return out;
}

Array dropped(const Array& array, size_t axis, int64_t place) {
  Array out = sliced(array, axis, place, 1, 1);
  out.shape.erase(out.shape.begin() + static_cast<ptrdiff_t>(axis));
  out.strides.erase(out.strides.begin() + static_cast<ptrdiff_t>(axis));
  return out;
}

std::vector<int64_t> moved_last(size_t rank, std::span<const int64_t> axes) {
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < static_cast<int64_t>(rank); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

std::vector<int64_t> inverse(std::span<const int64_t> order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

std::string text(std::span<const int64_t> numbers) {
  std::string out = "[";
  for (const int64_t number : numbers) out += (out.size() > 1 ? ", " : "") + std::to_string(number);
  return out + "]";
}

}  // namespace evaluator
}  // namespace kiln::graph
