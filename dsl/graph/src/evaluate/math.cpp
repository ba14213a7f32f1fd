// Evaluator: functions of floats, and conversions.
#include <optional>

#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_cast.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::graph::evaluator {
namespace {

std::optional<dsl::MathFn> function_of(TensorOp op) {
  switch (op) {
#define KILN_SAME(name) \
  case TensorOp::name:  \
    return dsl::MathFn::name;
    KILN_SAME(kExp)
    KILN_SAME(kExp2)
    KILN_SAME(kExpm1)
    KILN_SAME(kLog)
    KILN_SAME(kLog2)
    KILN_SAME(kLog10)
    KILN_SAME(kLog1p)
    KILN_SAME(kSin)
    KILN_SAME(kCos)
    KILN_SAME(kTan)
    KILN_SAME(kAsin)
    KILN_SAME(kAcos)
    KILN_SAME(kAtan)
    KILN_SAME(kAtan2)
    KILN_SAME(kSinh)
    KILN_SAME(kCosh)
    KILN_SAME(kTanh)
    KILN_SAME(kErf)
    KILN_SAME(kErfc)
    KILN_SAME(kSqrt)
    KILN_SAME(kRsqrt)
    KILN_SAME(kPow)
    KILN_SAME(kHypot)
    KILN_SAME(kCopysign)
    KILN_SAME(kFloor)
    KILN_SAME(kCeil)
    KILN_SAME(kRound)
    KILN_SAME(kTrunc)
    KILN_SAME(kSignbit)
    KILN_SAME(kIsnan)
    KILN_SAME(kIsinf)
#undef KILN_SAME
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<void> run_math(Step& step) {
  const auto function = function_of(step.node.op);
  if (!function) return internal_error("evaluate: `" + info(step.node.op).name + "` has no scalar function");
  const ElementType type = step.operand(0).element;
  const Array &x = step.operand(0), &y = step.operand(step.operands.size() - 1);
  std::vector<uint64_t> bits = all_bits(x);
  const std::vector<uint64_t> second = step.operands.size() > 1 ? all_bits(y) : bits;
  if (*function == dsl::MathFn::kCopysign) {
    const uint64_t sign = uint64_t{1} << (dsl::info(type).bits - 1);  // bits, those of a NaN too
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = (bits[i] & (sign - 1)) | (second[i] & sign);
  } else {
    with_float(type, [&](auto lane) {
      for (size_t i = 0; i < bits.size(); ++i) bits[i] = math_bits<decltype(lane)>(*function, bits[i], second[i]);
    });
  }
  store_all(step.make(), bits);
  return {};
}

void run_convert(Step& step) {
  const Array& x = step.operand(0);
  const ElementType from = step.declared_operand(0), to = step.declared_result();
  if (step.node.op == TensorOp::kCast) return step.give(converted(x, step.machine.computed(to)));
  std::vector<uint64_t> bits = all_bits(x);
  if (x.element != from) {  // wide: bits are those of the declared type
    with_float(from, [&](auto lane) {
      using Lane = decltype(lane);
      for (uint64_t& word : bits) {
        const double number = std::bit_cast<double>(word);
        const auto rounded = static_cast<typename Lane::Number>(number);
        word = std::isinf(number) || from == ElementType::kF32 ? encode_own<Lane>(rounded)
                                                               : dsl::bits_from_double(from, number);
      }
    });
  }
  Array& out = step.make();
  with_cast(to, out.element, [&](auto convert) {
    for (uint64_t& word : bits) word = convert(word);
  });
  store_all(out, bits);
}

}  // namespace kiln::graph::evaluator
