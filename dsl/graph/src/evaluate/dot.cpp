// Evaluator: sums of products. One fused step a product, in the order of the contracted axes.
#include <cmath>

#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_cast.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::graph::evaluator {
namespace {

// The axes of an operand in three groups, each as one: [batch, free, contracted].
struct Grouped {
  Array array;
  int64_t batch, free, contracted;
};

Grouped grouped(const Array& x, std::span<const int64_t> batch, std::span<const int64_t> contract) {
  std::vector<int64_t> last(batch.begin(), batch.end());
  last.insert(last.end(), contract.begin(), contract.end());
  const std::vector<int64_t> rest = moved_last(x.shape.size(), last);
  const size_t free_count = x.shape.size() - last.size();
  std::vector<int64_t> order(batch.begin(), batch.end());
  order.insert(order.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(free_count));
  order.insert(order.end(), contract.begin(), contract.end());
  Grouped out{permuted(x, order), 1, 1, 1};
  const std::span<const int64_t> shape(out.array.shape);
  out.batch = count_of(shape.first(batch.size()));
  out.free = count_of(shape.subspan(batch.size(), free_count));
  out.contracted = count_of(shape.subspan(batch.size() + free_count));
  return out;
}

// Elements as numbers to multiply: rounded to tf32 where that is asked for. tf32x3 and bf16x3 are ways to come near to
// f32 on hardware without it: plain f32 is at least as precise.
template <class T>
std::vector<T> factors(const Array& array, Precision precision) {
  std::vector<T> out = numbers_as<T>(array);
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::kTf32) {
      for (T& x : out) x = round_to_tf32(x);
    }
  }
  return out;
}

template <class T>
T step_of(T x, T y, T sum) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(x, y, sum);
  } else {
    return x * y + sum;  // unsigned: wraps
  }
}

template <class SumLane, class T>
Array multiply(const Grouped& a, const Grouped& b, Precision precision, ElementType sum_type) {
  const std::vector<T> x = factors<T>(a.array, precision), y = factors<T>(b.array, precision);
  Array out = own(sum_type, {a.batch, a.free, b.free});
  const auto length = static_cast<size_t>(a.contracted);
  int64_t place = 0;
  for (int64_t batch = 0; batch < a.batch; ++batch) {
    for (int64_t i = 0; i < a.free; ++i) {
      const T* row = x.data() + static_cast<size_t>(batch * a.free + i) * length;
      for (int64_t j = 0; j < b.free; ++j) {
        const T* column = y.data() + static_cast<size_t>(batch * b.free + j) * length;
        T sum{};
        for (size_t k = 0; k < length; ++k) sum = step_of(row[k], column[k], sum);
        store_bits<SumLane>(out, place++, SumLane::encode(static_cast<typename SumLane::Number>(sum)));
      }
    }
  }
  return out;
}

}  // namespace

Result<void> run_dot(Step& step) {
  const AttrList& attrs = step.attrs();
  const Grouped a = grouped(step.operand(0), ints_attr(attrs, 0), ints_attr(attrs, 2));
  const Grouped b = grouped(step.operand(1), ints_attr(attrs, 1), ints_attr(attrs, 3));
  const auto precision = enum_attr<Precision>(attrs, 5);
  const ElementType x = a.array.element, y = b.array.element;
  const bool wide = x == ElementType::kF64 || y == ElementType::kF64;
  Array sums = !dsl::is_float(x) && !dsl::is_float(y)
                   ? multiply<IntLane<int64_t>, uint64_t>(a, b, precision, ElementType::kI64)
               : wide ? multiply<F64Lane, double>(a, b, precision, ElementType::kF64)
                      : multiply<F32Lane, float>(a, b, precision, ElementType::kF32);
  step.give(reshaped(converted(sums, step.machine.computed(step.declared_result())), step.shape()));
  return {};
}

}  // namespace kiln::graph::evaluator
