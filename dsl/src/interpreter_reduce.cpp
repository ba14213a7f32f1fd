// Interpreter: dot and reductions.
#include <cmath>

#include "interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

// f32 with a mantissa of 10 bits, rounded to nearest even; infinities and NaN stay.
float round_to_tf32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  bits += 0xfffu + (bits >> 13 & 1u);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

struct DotShape {
  size_t m, n, k;
};

// acc + a·b, one fused step a product, in the order of k.
template <class T, class Step>
void multiply(const DotShape& shape, const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& acc, Step step) {
  for (size_t i = 0; i < shape.m; ++i) {
    for (size_t k = 0; k < shape.k; ++k) {
      const T x = a[i * shape.k + k];
      for (size_t j = 0; j < shape.n; ++j) {
        T& sum = acc[i * shape.n + j];
        sum = step(x, b[k * shape.n + j], sum);
      }
    }
  }
}

template <class T>
std::vector<T> floats(ElementType type, const Tile& tile) {
  std::vector<T> out;
  out.reserve(tile.size());
  for (uint64_t bits : tile.bits) out.push_back(float_from_bits<T>(type, bits));
  return out;
}

template <class T>
Tile float_dot(const Machine& machine, const Op& op, const DotShape& shape, ElementType accumulator) {
  std::vector<T> a = floats<T>(machine.element(op), machine.operand(op, 0));
  std::vector<T> b = floats<T>(machine.element(op), machine.operand(op, 1));
  std::vector<T> acc = floats<T>(accumulator, machine.operand(op, 2));
  if (machine.element(op) == ElementType::kF32 &&
      static_cast<Precision>(std::get<int64_t>(op.attrs[0])) == Precision::kTf32) {
    for (T& x : a) x = round_to_tf32(static_cast<float>(x));
    for (T& x : b) x = round_to_tf32(static_cast<float>(x));
  }
  multiply(shape, a, b, acc, [](T x, T y, T sum) { return std::fma(x, y, sum); });
  Tile out;
  for (T value : acc) out.bits.push_back(bits_from_float<T>(accumulator, value));
  return out;
}

Tile int_dot(const Machine& machine, const Op& op, const DotShape& shape) {
  const ElementTypeInfo& type = info(machine.element(op));
  auto ints = [](const ElementTypeInfo& from, const Tile& tile) {
    std::vector<uint32_t> out;
    for (uint64_t bits : tile.bits) out.push_back(static_cast<uint32_t>(wide_from_bits(from, bits)));
    return out;
  };
  std::vector<uint32_t> acc = ints(info(ElementType::kI32), machine.operand(op, 2));
  multiply(shape, ints(type, machine.operand(op, 0)), ints(type, machine.operand(op, 1)), acc,
           [](uint32_t x, uint32_t y, uint32_t sum) { return x * y + sum; });
  Tile out;
  out.bits.assign(acc.begin(), acc.end());
  return out;
}

// The error of a pairwise sum grows with log n: 2^25 ones give 33554432.
template <class T>
T pairwise_sum(std::span<const T> x) {
  if (x.size() <= 8) {
    T sum = x[0];
    for (T value : x.subspan(1)) sum += value;
    return sum;
  }
  const size_t half = x.size() / 2;
  return pairwise_sum(x.first(half)) + pairwise_sum(x.subspan(half));
}

template <class T>
T reduce_floats(ReduceKind kind, std::span<const T> x) {
  if (kind == ReduceKind::kSum) return pairwise_sum(x);
  T result = x[0];
  for (T value : x.subspan(1)) {
    if (kind == ReduceKind::kProd) {
      result *= value;
    } else if (std::isnan(value)) {
      result = value;
    } else if (kind == ReduceKind::kMin ? value < result : value > result) {  // false where result is NaN
      result = value;
    }
  }
  return result;
}

uint64_t reduce_ints(ReduceKind kind, const ElementTypeInfo& type, std::span<const uint64_t> x) {
  uint64_t result = x[0];
  for (uint64_t value : x.subspan(1)) {
    const bool less = wide_from_bits(type, value) < wide_from_bits(type, result);
    switch (kind) {
      case ReduceKind::kSum:
        result += value;
        break;
      case ReduceKind::kProd:
        result *= value;
        break;
      case ReduceKind::kMin:
        result = less ? value : result;
        break;
      case ReduceKind::kMax:
        result = less ? result : value;
        break;
      default:
        break;
    }
    result = low_bits(result, type.bits);
  }
  return result;
}

template <class T>
uint64_t reduce_float_bits(ReduceKind kind, ElementType type, std::span<const uint64_t> bits) {
  std::vector<T> x(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) x[i] = float_from_bits<T>(type, bits[i]);
  return bits_from_float<T>(type, reduce_floats<T>(kind, x));
}

}  // namespace

Result<void> run_dot(Machine& machine, const Op& op) {
  const auto &a = machine.shapes[op.operands[0]], &b = machine.shapes[op.operands[1]];
  const DotShape shape{static_cast<size_t>(a[0]), static_cast<size_t>(b[1]), static_cast<size_t>(a[1])};
  const ElementType type = machine.element(op);
  machine.set(op, is_int(type)                ? int_dot(machine, op, shape)
                  : type == ElementType::kF64 ? float_dot<double>(machine, op, shape, ElementType::kF64)
                                              : float_dot<float>(machine, op, shape, ElementType::kF32));
  return {};
}

Result<void> run_reduce(Machine& machine, const Op& op) {
  const ReduceKind kind = static_cast<ReduceKind>(std::get<int64_t>(op.attrs[0]));
  const size_t axis = static_cast<size_t>(std::get<int64_t>(op.attrs[1]));
  const std::vector<int64_t>& shape = machine.shapes[op.operands[0]];
  const ElementType type = machine.element(op);
  const Tile& x = machine.operand(op, 0);
  const size_t length = static_cast<size_t>(shape[axis]);
  size_t inner = 1;  // distance of two neighbours along the axis
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  Tile out;
  out.bits.resize(x.size() / length);
  std::vector<uint64_t> gathered(inner == 1 ? 0 : length);
  for (size_t lane = 0; lane < out.size(); ++lane) {
    const size_t start = lane / inner * inner * length + lane % inner;
    for (size_t i = 0; i < gathered.size(); ++i) gathered[i] = x.bits[start + i * inner];
    // Along the last axis the elements are neighbours already.
    const std::span<const uint64_t> line = inner == 1 ? std::span(x.bits).subspan(start, length) : gathered;
    out.bits[lane] = is_int(type)                ? reduce_ints(kind, info(type), line)
                     : type == ElementType::kF64 ? reduce_float_bits<double>(kind, type, line)
                                                 : reduce_float_bits<float>(kind, type, line);
  }
  machine.set(op, std::move(out));
  return {};
}

}  // namespace kiln::dsl::interpreter
