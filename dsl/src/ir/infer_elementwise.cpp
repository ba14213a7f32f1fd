// Type rules: arithmetic, bits, comparison, choice, math, conversion, and the other ops on lanes.
#include "ir/infer_rules.h"

namespace kiln::dsl::infer {
namespace {

// What an op on numbers takes; "" when the element type will do.
std::string element_problem(OpCode code, ElementType element) {
  const bool is_i1 = element == ElementType::kI1;
  switch (code) {
    case OpCode::kFma:
    case OpCode::kMath:
      return is_float(element) ? "" : "takes floats only";
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
      return is_int(element) ? "" : "takes ints or i1 only";
    case OpCode::kShl:
    case OpCode::kShr:
    case OpCode::kMulhi:
      return is_int(element) && !is_i1 ? "" : "takes ints only";
    default:
      return is_i1 ? "takes no i1; cast to an int first" : "";
  }
}

Types numbers(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_same_type(rule, 0, rule.in.size() - 1)) return *bad;
  const std::string problem = element_problem(rule.op.code, rule.in[0].element);
  if (!problem.empty()) return rule.fail(problem);
  return std::vector<Type>{rule.in[0]};
}

Types math(const Rule& rule) {
  auto types = numbers(rule);
  if (!types) return types;
  const MathFn fn = static_cast<MathFn>(rule.number(0));
  if (static_cast<int>(rule.in.size()) != math_arity(fn)) {
    return rule.fail(rule.op.attrs[0].values[static_cast<size_t>(fn)] + " takes " + std::to_string(math_arity(fn)) +
                     (math_arity(fn) == 1 ? " operand" : " operands"));
  }
  if (is_float_test(fn)) (*types)[0].element = ElementType::kI1;
  return types;
}

Types compare(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_same_type(rule, 0, 1)) return *bad;
  return std::vector<Type>{tile_type(ElementType::kI1, rule.in[0].shape)};
}

Types select(const Rule& rule) {
  if (rule.in[0].element != ElementType::kI1 || rule.in[0].pointer) return rule.fail("the condition must be i1");
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_same_type(rule, 1, 2)) return *bad;
  return std::vector<Type>{rule.in[1]};
}

bool is_f8(ElementType element) { return is_float(element) && info(element).bits == 8; }

Types cast(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  const ElementType from = rule.in[0].element, to = rule.element(0);
  const bool stochastic = static_cast<Rounding>(rule.number(1)) == Rounding::kStochastic;
  if (rule.number(2) == 0 && !is_f8(to)) return rule.fail("saturate = 0 is for casts to f8 only");
  if (stochastic != (rule.in.size() == 2)) return rule.fail("stochastic rounding takes a tile of random words");
  if (stochastic) {
    if (!is_float(from) || from == ElementType::kF64 || !is_small_float(to)) {
      return rule.fail("stochastic rounding is from f32 and below to f16, bf16 or f8, not to " +
                       std::string(info(to).name));
    }
    if (rule.in[1].element != ElementType::kU32) return rule.fail("the random words must be u32");
    if (auto bad = check_same_shape(rule)) return *bad;
  }
  return std::vector<Type>{tile_type(to, rule.in[0].shape)};
}

Types bitcast(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  const ElementType to = rule.element(0);
  if (info(to).bits != info(rule.in[0].element).bits) {
    return rule.fail("bitcast to " + std::string(info(to).name) + " changes the width");
  }
  return std::vector<Type>{tile_type(to, rule.in[0].shape)};
}

Types philox(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  for (const Type& type : rule.in) {
    if (type.element != ElementType::kU64) return rule.fail("seed and offset must be u64");
  }
  return std::vector<Type>(4, tile_type(ElementType::kU32, rule.in[0].shape));
}

Types inline_asm(const Rule& rule) {
  if (rule.in.empty()) return rule.fail("takes at least one operand");
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  const int64_t pack = rule.number(2);
  if (pack < 1 || pack > 16) return rule.fail("pack must be 1 to 16");
  return std::vector<Type>{tile_type(rule.element(3), rule.in[0].shape)};
}

}  // namespace

Types elementwise(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kCmp:
      return compare(rule);
    case OpCode::kSelect:
      return select(rule);
    case OpCode::kMath:
      return math(rule);
    case OpCode::kCast:
      return cast(rule);
    case OpCode::kBitcast:
      return bitcast(rule);
    case OpCode::kPhilox:
      return philox(rule);
    case OpCode::kInlineAsm:
      return inline_asm(rule);
    default:
      return numbers(rule);
  }
}

}  // namespace kiln::dsl::infer
