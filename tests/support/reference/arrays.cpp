#include "reference/arrays.h"

namespace kiln::reference {

int64_t count(const Shape& shape) {
  int64_t out = 1;
  for (const int64_t extent : shape) out *= extent;
  return out;
}

int64_t offset(const Shape& shape, const Shape& index) {
  int64_t out = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) out = out * shape[axis] + index[axis];
  return out;
}

Shape index_of(const Shape& shape, int64_t offset) {
  Shape out(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; offset /= shape[axis]) out[axis] = offset % shape[axis];
  return out;
}

Shape with_extent(Shape shape, size_t axis, int64_t extent) {
  shape[axis] = extent;
  return shape;
}

Shape without_axis(Shape shape, size_t axis) {
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  return shape;
}

Shape with_axis(Shape shape, size_t axis, int64_t extent) {
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), extent);
  return shape;
}

}  // namespace kiln::reference
