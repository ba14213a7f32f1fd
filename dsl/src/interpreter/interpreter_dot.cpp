// Interpreter: products of tiles. One fused step a product, in the order of k.
#include <bit>
#include <cmath>
#include <limits>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
namespace {

struct DotShape {
  size_t batch, m, n, k;

  explicit DotShape(const std::vector<int64_t>& a, const std::vector<int64_t>& b)
      : batch(a.size() == 3 ? static_cast<size_t>(a[0]) : 1),
        m(static_cast<size_t>(a[a.size() - 2])),
        n(static_cast<size_t>(b.back())),
        k(static_cast<size_t>(a.back())) {}
};

// acc + a·b, batch by batch.
template <class T, class Sum, class Step>
void multiply(const DotShape& shape, const std::vector<T>& a, const std::vector<T>& b, std::vector<Sum>& acc,
              Step step) {
  for (size_t row = 0; row < shape.batch * shape.m; ++row) {
    const T* b_of_batch = b.data() + row / shape.m * shape.k * shape.n;
    for (size_t k = 0; k < shape.k; ++k) {
      const T x = a[row * shape.k + k];
      for (size_t j = 0; j < shape.n; ++j) {
        Sum& sum = acc[row * shape.n + j];
        sum = step(x, b_of_batch[k * shape.n + j], sum);
      }
    }
  }
}

// The elements as numbers of the arithmetic type.
template <class T>
std::vector<T> numbers(ElementType type, const Tile& tile) {
  return with_element(type, [&](auto lane) {
    std::vector<T> out;
    out.reserve(tile.size());
    for (uint64_t bits : tile.bits) out.push_back(static_cast<T>(decltype(lane)::decode(bits)));
    return out;
  });
}

template <class Lane>
void float_dot(Machine& machine, const Op& op, const DotShape& shape) {
  using T = typename Lane::Number;
  const ElementType type = machine.element(op);
  std::vector<T> a = numbers<T>(type, machine.operand(op, 0)), b = numbers<T>(type, machine.operand(op, 1));
  std::vector<T> acc;
  for (uint64_t bits : machine.operand(op, 2).bits) acc.push_back(Lane::decode(bits));
  // tf32x3 and bf16x3 are ways to come near to f32 on hardware without it: plain f32 is at least as precise.
  if (static_cast<Precision>(int_attr(op, 0)) == Precision::kTf32) {
    for (T& x : a) x = round_to_tf32(static_cast<float>(x));
    for (T& x : b) x = round_to_tf32(static_cast<float>(x));
  }
  multiply(shape, a, b, acc, [](T x, T y, T sum) { return std::fma(x, y, sum); });
  Tile& out = machine.result(op);
  for (size_t i = 0; i < out.size(); ++i) out.bits[i] = Lane::encode(acc[i]);
}

void int_dot(Machine& machine, const Op& op, const DotShape& shape) {
  auto ints = [&](size_t i) { return numbers<uint32_t>(machine.operand_type(op, i).element, machine.operand(op, i)); };
  std::vector<uint32_t> acc = ints(2);
  multiply(shape, ints(0), ints(1), acc, [](uint32_t x, uint32_t y, uint32_t sum) { return x * y + sum; });
  machine.result(op).bits.assign(acc.begin(), acc.end());
}

// A 4-bit float of 2 exponent bits and 1 mantissa bit.
double decode_e2m1(uint64_t bits) {
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double magnitude = kMagnitudes[bits & 7];
  return bits & 8 ? -magnitude : magnitude;
}

// 2^(bits - 127), or NaN.
double decode_e8m0(uint64_t bits) {
  return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(bits) - 127);
}

// The scaled elements [rows, K] of an MX operand. K of element (row, k) lies `k_stride` apart, rows `row_stride`; u8
// packs two of them along K.
std::vector<double> scaled(ElementType type, const Tile& x, const Tile& scale, size_t rows, size_t k_extent,
                           size_t row_stride, size_t k_stride) {
  std::vector<double> out(rows * k_extent);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < k_extent; ++k) {
      const bool packed = type == ElementType::kU8;
      const uint64_t bits = x.bits[row * row_stride + (packed ? k / 2 : k) * k_stride];
      const double element = packed ? decode_e2m1(k % 2 == 0 ? bits : bits >> 4) : double_from_bits(type, bits);
      out[row * k_extent + k] = element * decode_e8m0(scale.bits[row * (k_extent / 32) + k / 32]);
    }
  }
  return out;
}

}  // namespace

void run_dot(Machine& machine, const Op& op) {
  const DotShape shape(machine.operand_shape(op, 0), machine.operand_shape(op, 1));
  const ElementType type = machine.element(op);
  if (is_int(type)) return int_dot(machine, op, shape);
  type == ElementType::kF64 ? float_dot<F64Lane>(machine, op, shape) : float_dot<F32Lane>(machine, op, shape);
}

// Elements times scales and their products are exact in f64; each is added to the f32 sum.
void run_dot_scaled(Machine& machine, const Op& op) {
  const size_t m = static_cast<size_t>(machine.operand_shape(op, 0)[0]);
  const size_t n = static_cast<size_t>(machine.operand_shape(op, 2)[1]);
  const size_t k_extent = 32 * static_cast<size_t>(machine.operand_shape(op, 1)[1]);
  const ElementType a_type = machine.element(op), b_type = machine.operand_type(op, 2).element;
  const size_t a_row = a_type == ElementType::kU8 ? k_extent / 2 : k_extent;
  const std::vector<double> a = scaled(a_type, machine.operand(op, 0), machine.operand(op, 1), m, k_extent, a_row, 1);
  const std::vector<double> b = scaled(b_type, machine.operand(op, 2), machine.operand(op, 3), n, k_extent, 1, n);
  Tile& out = machine.result(op);
  for (size_t lane = 0; lane < out.size(); ++lane) {
    float sum = F32Lane::decode(machine.operand(op, 4).bits[lane]);
    for (size_t k = 0; k < k_extent; ++k) {
      sum = static_cast<float>(sum + a[lane / n * k_extent + k] * b[lane % n * k_extent + k]);
    }
    out.bits[lane] = F32Lane::encode(sum);
  }
}

}  // namespace kiln::dsl::interpreter
