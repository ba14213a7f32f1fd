// Evaluator: arithmetic, bits, comparisons and choices, one element at a time; and what is a function of one element.
#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::graph::evaluator {
namespace {

// out[i] = function(number of a[i], …), which gives bits.
template <class Lane, class OutLane, size_t kCount, class Function>
void map(Step& step, Function function) {
  std::array<const Array*, kCount + 1> arrays;
  for (size_t i = 0; i < kCount; ++i) arrays[i] = &step.operand(i);
  arrays[kCount] = &step.make();
  for_rows<kCount + 1>(arrays[kCount]->shape, arrays, [&](const Rows<kCount + 1>& rows, int64_t count) {
    auto* out = const_cast<std::byte*>(rows.data[kCount]);
    for (int64_t i = 0; i < count; ++i) {
      auto number = [&](size_t k) { return Lane::decode(load<kBytes<Lane>>(rows.data[k] + i * rows.step[k])); };
      uint64_t bits;
      if constexpr (kCount == 1) bits = function(number(0));
      if constexpr (kCount == 2) bits = function(number(0), number(1));
      if constexpr (kCount == 3) bits = function(number(0), number(1), number(2));
      store<kBytes<OutLane>>(out + i * rows.step[kCount], bits);
    }
  });
}

// The same over the bits themselves.
template <size_t kCount, class Function>
void map_bits(Step& step, Function function) {
  with_bytes(step.operand(0).element, [&](auto bytes) {
    using Word = std::conditional_t<
        bytes == 1, uint8_t,
        std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;
    map<IntLane<Word>, IntLane<Word>, kCount>(
        step, [&](auto... words) { return static_cast<Word>(function(static_cast<uint64_t>(words)...)); });
  });
}

template <class Lane>
void float_arithmetic(Step& step) {
  using T = typename Lane::Number;
  auto binary = [&](auto function) {
    map<Lane, Lane, 2>(step, [&](T x, T y) { return Lane::encode(function(x, y)); });
  };
  switch (step.node.op) {
    case TensorOp::kAdd:
      return binary([](T x, T y) { return x + y; });
    case TensorOp::kSub:
      return binary([](T x, T y) { return x - y; });
    case TensorOp::kMul:
      return binary([](T x, T y) { return x * y; });
    case TensorOp::kDiv:
      return binary([](T x, T y) { return x / y; });
    case TensorOp::kRem:
      return binary([](T x, T y) { return std::fmod(x, y); });
    case TensorOp::kFma:
      return map<Lane, Lane, 3>(step, [](T x, T y, T z) { return Lane::encode(std::fma(x, y, z)); });
    case TensorOp::kSign:
      return map<Lane, Lane, 1>(step, [](T x) { return Lane::encode(x > 0 ? T{1} : x < 0 ? T{-1} : x); });
    default: {  // kMin, kMax
      const bool is_min = step.node.op == TensorOp::kMin;
      return map<Lane, Lane, 2>(
          step, [=](T x, T y) { return encode_own<Lane>(float_min_max(x, y, is_min, /*numeric=*/false)); });
    }
  }
}

template <class Lane>
void int_arithmetic(Step& step) {
  using T = typename Lane::Number;
  auto binary = [&](auto function) {
    map<Lane, Lane, 2>(step, [&](T x, T y) {
      T out;
      function(x, y, out);
      return Lane::encode(out);
    });
  };
  auto unary = [&](auto function) {
    map<Lane, Lane, 1>(step, [&](T x) { return Lane::encode(static_cast<T>(function(x))); });
  };
  switch (step.node.op) {
    case TensorOp::kAdd:
      return binary([](T x, T y, T& z) { return __builtin_add_overflow(x, y, &z); });
    case TensorOp::kSub:
      return binary([](T x, T y, T& z) { return __builtin_sub_overflow(x, y, &z); });
    case TensorOp::kMul:
      return binary([](T x, T y, T& z) { return __builtin_mul_overflow(x, y, &z); });
    case TensorOp::kDiv:
      return binary(divide<T>);
    case TensorOp::kRem:
      return binary(remainder<T>);
    case TensorOp::kMulhi:
      return binary(multiply_high<T>);
    case TensorOp::kMin:
      return binary([](T x, T y, T& z) { return z = x < y ? x : y, false; });
    case TensorOp::kMax:
      return binary([](T x, T y, T& z) { return z = x < y ? y : x, false; });
    case TensorOp::kShl:
      return binary(shift_left<T>);
    case TensorOp::kShr:
      return binary(shift_right<T>);
    case TensorOp::kNeg:
      return unary([](T x) { return uint64_t{0} - static_cast<uint64_t>(x); });
    case TensorOp::kAbs:
      return unary([](T x) { return x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); });
    default:  // kSign
      return unary([](T x) { return (x > 0) - (x < 0); });
  }
}

void run_arithmetic(Step& step) {
  const ElementType type = step.operand(0).element;
  if (!dsl::is_float(type)) return with_int(type, [&](auto lane) { int_arithmetic<decltype(lane)>(step); });
  // neg and abs touch the sign bit alone, of NaN too.
  const uint64_t sign = uint64_t{1} << (dsl::info(type).bits - 1);
  if (step.node.op == TensorOp::kNeg) return map_bits<1>(step, [=](uint64_t x) { return x ^ sign; });
  if (step.node.op == TensorOp::kAbs) return map_bits<1>(step, [=](uint64_t x) { return x & ~sign; });
  with_float(type, [&](auto lane) { float_arithmetic<decltype(lane)>(step); });
}

void run_compare(Step& step) {
  using I1 = IntLane<uint8_t>;
  with_element(step.operand(0).element, [&](auto of) {
    using Lane = decltype(of);
    using T = typename Lane::Number;
    switch (enum_attr<Predicate>(step.attrs(), 0)) {
      case Predicate::kEq:
        return map<Lane, I1, 2>(step, [](T x, T y) { return x == y; });
      case Predicate::kNe:
        return map<Lane, I1, 2>(step, [](T x, T y) { return x != y; });  // true for NaN
      case Predicate::kLt:
        return map<Lane, I1, 2>(step, [](T x, T y) { return x < y; });
      case Predicate::kLe:
        return map<Lane, I1, 2>(step, [](T x, T y) { return x <= y; });
      case Predicate::kGt:
        return map<Lane, I1, 2>(step, [](T x, T y) { return x > y; });
      case Predicate::kGe:
        return map<Lane, I1, 2>(step, [](T x, T y) { return x >= y; });
    }
  });
}

void run_select(Step& step) {
  const Array &condition = step.operand(0), &a = step.operand(1), &b = step.operand(2);
  Array& out = step.make();
  with_bytes(a.element, [&](auto bytes) {
    for_rows<4>(out.shape, {&condition, &a, &b, &out}, [&](const Rows<4>& rows, int64_t count) {
      auto* written = const_cast<std::byte*>(rows.data[3]);
      for (int64_t i = 0; i < count; ++i) {
        const size_t from = load<1>(rows.data[0] + i * rows.step[0]) != 0 ? 1 : 2;
        std::memcpy(written + i * rows.step[3], rows.data[from] + i * rows.step[from], bytes);
      }
    });
  });
}

}  // namespace

Result<void> run_elementwise(Step& step) {
  const ElementType type = step.operand(0).element;
  switch (step.node.op) {
    case TensorOp::kAnd:
      map_bits<2>(step, [](uint64_t x, uint64_t y) { return x & y; });
      return {};
    case TensorOp::kOr:
      map_bits<2>(step, [](uint64_t x, uint64_t y) { return x | y; });
      return {};
    case TensorOp::kXor:
      map_bits<2>(step, [](uint64_t x, uint64_t y) { return x ^ y; });
      return {};
    case TensorOp::kNot: {
      const uint64_t all = low_bits(~uint64_t{0}, dsl::info(type).bits);
      map_bits<1>(step, [=](uint64_t x) { return x ^ all; });
      return {};
    }
    case TensorOp::kCmp:
      run_compare(step);
      return {};
    case TensorOp::kSelect:
      run_select(step);
      return {};
    case TensorOp::kCast:
    case TensorOp::kBitcast:
      run_convert(step);
      return {};
    case TensorOp::kStopGradient:
      step.give(step.operand(0));
      return {};
    default:
      if (info(step.node.op).has(kMath)) return run_math(step);
      run_arithmetic(step);
      return {};
  }
}

}  // namespace kiln::graph::evaluator
