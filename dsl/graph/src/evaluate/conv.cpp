// Evaluator: convolutions and their transposes: one walk over all products, which each adds to another of three
// tensors.
#include <cmath>

#include "evaluate/array_loops.h"

namespace kiln::graph::evaluator {
namespace {

struct Shape {
  Extents x, w, y;  // [N, C, …], [K, C/groups, …], [N, K, …]
  Extents strides, low, dilation;
  int64_t groups;
};

// For each axis of space and place o of the result: which places of the window meet x, and where.
struct Tap {
  int64_t window, x;
};
std::vector<std::vector<Tap>> taps_of(const Shape& shape, size_t axis) {
  std::vector<std::vector<Tap>> out;
  for (int64_t o = 0; o < shape.y[axis + 2]; ++o) {
    std::vector<Tap>& taps = out.emplace_back();
    for (int64_t window = 0; window < shape.w[axis + 2]; ++window) {
      const int64_t x = o * shape.strides[axis] - shape.low[axis] + window * shape.dilation[axis];
      if (x >= 0 && x < shape.x[axis + 2]) taps.push_back({window, x});
    }
  }
  return out;
}

// Where the taps of one place of the result's space lie in the spaces of x and of the window.
struct Pair {
  size_t x, w;
};
void find_pairs(const Shape& shape, const std::vector<const std::vector<Tap>*>& taps, std::vector<Pair>& pairs) {
  pairs.clear();
  Extents counts, index(taps.size(), 0);
  for (const auto* list : taps) counts.push_back(static_cast<int64_t>(list->size()));
  if (count_of(counts) == 0) return;
  do {
    int64_t x = 0, w = 0;
    for (size_t axis = 0; axis < taps.size(); ++axis) {
      const Tap& tap = (*taps[axis])[static_cast<size_t>(index[axis])];
      x = x * shape.x[axis + 2] + tap.x;
      w = w * shape.w[axis + 2] + tap.window;
    }
    pairs.push_back({static_cast<size_t>(x), static_cast<size_t>(w)});
  } while (next_index(index, counts));
}

// function(place in x, in w, in y) for each product.
template <class Function>
void for_products(const Shape& shape, Function function) {
  const size_t axes = shape.x.size() - 2;
  const std::span<const int64_t> y_space = std::span(shape.y).subspan(2);
  const auto size = [](const Extents& extents) { return static_cast<size_t>(count_of(std::span(extents).subspan(2))); };
  const size_t x_size = size(shape.x), w_size = size(shape.w), y_size = size(shape.y);
  const auto channels = static_cast<size_t>(shape.w[1]), x_channels = static_cast<size_t>(shape.x[1]);
  const auto batch = static_cast<size_t>(shape.y[0]), kernels = static_cast<size_t>(shape.y[1]);
  const size_t of_group = kernels / static_cast<size_t>(shape.groups);
  if (y_size == 0) return;
  std::vector<std::vector<std::vector<Tap>>> taps;
  for (size_t axis = 0; axis < axes; ++axis) taps.push_back(taps_of(shape, axis));
  std::vector<const std::vector<Tap>*> here(axes);
  std::vector<Pair> pairs;
  Extents place(axes, 0);
  size_t at = 0;
  do {
    for (size_t axis = 0; axis < axes; ++axis) here[axis] = &taps[axis][static_cast<size_t>(place[axis])];
    find_pairs(shape, here, pairs);
    for (size_t n = 0; n < batch; ++n) {
      for (size_t k = 0; k < kernels; ++k) {
        const size_t y = (n * kernels + k) * y_size + at;
        for (size_t c = 0; c < channels; ++c) {
          const size_t x = (n * x_channels + k / of_group * channels + c) * x_size, w = (k * channels + c) * w_size;
          for (const Pair& pair : pairs) function(x + pair.x, w + pair.w, y);
        }
      }
    }
    ++at;
  } while (next_index(place, y_space));
}

// x·y + sum with one rounding, or wrapping.
template <class T>
T product_added(T x, T y, T sum) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(x, y, sum);
  } else {
    return x * y + sum;
  }
}

template <class T>
std::vector<T> sums(TensorOp op, const Shape& shape, const std::vector<T>& a, const std::vector<T>& b, size_t count) {
  std::vector<T> out(count);
  for_products(shape, [&](size_t x, size_t w, size_t y) {
    switch (op) {
      case TensorOp::kConv:
        out[y] = product_added(a[x], b[w], out[y]);
        break;
      case TensorOp::kConvInput:
        out[x] = product_added(a[y], b[w], out[x]);
        break;
      default:  // kConvWeight
        out[w] = product_added(a[x], b[y], out[w]);
    }
  });
  return out;
}

Shape shape_of(const Step& step, const Extents& result) {
  // Of conv: strides low high dilation groups; of the others a shape stands before them.
  const size_t first = step.node.op == TensorOp::kConv ? 0 : 1;
  const AttrList& attrs = step.attrs();
  const Extents &a = step.operand(0).shape, &b = step.operand(1).shape;
  Shape out{{},
            {},
            {},
            ints_attr(attrs, first),
            ints_attr(attrs, first + 1),
            ints_attr(attrs, first + 3),
            int_attr(attrs, first + 4)};
  out.x = step.node.op == TensorOp::kConvInput ? result : a;
  out.w = step.node.op == TensorOp::kConvWeight ? result : b;
  out.y = step.node.op == TensorOp::kConv ? result : step.node.op == TensorOp::kConvInput ? a : b;
  return out;
}

template <class SumLane, class T>
Array convolve(const Step& step, const Shape& shape, const Extents& result, ElementType sum_type) {
  const std::vector<T> a = numbers_as<T>(step.operand(0)), b = numbers_as<T>(step.operand(1));
  const std::vector<T> out = sums(step.node.op, shape, a, b, static_cast<size_t>(count_of(result)));
  Array array = own(sum_type, result);
  for (size_t i = 0; i < out.size(); ++i) {
    store_bits<SumLane>(array, static_cast<int64_t>(i), SumLane::encode(static_cast<typename SumLane::Number>(out[i])));
  }
  return array;
}

}  // namespace

Result<void> run_conv(Step& step) {
  const Extents result = step.shape();
  const Shape shape = shape_of(step, result);
  const ElementType type = step.operand(0).element;
  const Array out = !dsl::is_float(type) ? convolve<IntLane<int64_t>, uint64_t>(step, shape, result, ElementType::kI64)
                    : type == ElementType::kF64 ? convolve<F64Lane, double>(step, shape, result, type)
                                                : convolve<F32Lane, float>(step, shape, result, ElementType::kF32);
  step.give(converted(out, step.machine.computed(step.declared_result())));
  return {};
}

}  // namespace kiln::graph::evaluator
