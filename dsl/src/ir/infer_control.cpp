// Type rules: control flow, facts, and what regions take and yield.
#include "ir/infer_rules.h"

namespace kiln::dsl {
namespace infer {

Types control(const Rule& rule, const std::vector<Type>& yields) {
  switch (rule.op.code) {
    case OpCode::kFor:
      for (size_t i = 0; i < 3; ++i) {
        if (!rule.in[i].is_scalar() || !is_index(rule.in[i])) {
          return rule.fail("start, end and step must be scalar ints");
        }
      }
      if (auto bad = check_same_type(rule, 0, 2)) return *bad;
      if (rule.expr(0).as_constant().value_or(1) < 1) return rule.fail("num_stages must be 1 or more");
      return std::vector<Type>(rule.in.begin() + 3, rule.in.end());
    case OpCode::kWhile:
      return rule.in;
    case OpCode::kIf:
      if (rule.in[0] != scalar_type(ElementType::kI1)) return rule.fail("the condition must be a scalar i1");
      return yields;
    default:  // kYield
      return std::vector<Type>{};
  }
}

namespace {

Types assume(const Rule& rule) {
  const Type& type = rule.in[0];
  if (!type.pointer && !is_index(type)) return rule.fail("takes ints or pointers");
  const Expr &low = rule.expr(2), &high = rule.expr(3);
  if (rule.expr(0).as_constant().value_or(1) < 1) return rule.fail("multiple_of must be 1 or more");
  if (rule.expr(1).as_constant().value_or(1) < 1) return rule.fail("contiguous must be 1 or more");
  if (type.is_scalar() && !(rule.expr(1) == Expr(1))) return rule.fail("contiguous is for tiles");
  const bool has_range = !(low == Expr(INT64_MIN)) || !(high == Expr(INT64_MAX));
  if (has_range && type.pointer) return rule.fail("a range is for ints");
  if (low.as_constant() && high.as_constant() && *low.as_constant() > *high.as_constant()) {
    return rule.fail("the range " + rule.text(low) + " to " + rule.text(high) + " is empty");
  }
  return std::vector<Type>{};
}

}  // namespace

Types fact(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kAssume:
      return assume(rule);
    case OpCode::kAssert:
      if (rule.in[0].element != ElementType::kI1 || rule.in[0].pointer) return rule.fail("the condition must be i1");
      return std::vector<Type>{};
    case OpCode::kPrint:
      if (auto bad = check_no_pointers(rule)) return *bad;
      return std::vector<Type>{};
    default:  // kRequire
      return std::vector<Type>{};
  }
}

}  // namespace infer

std::vector<RegionTypes> region_types(OpCode code, const std::vector<Type>& operands, const std::vector<Attr>& attrs) {
  switch (code) {
    case OpCode::kFor: {
      std::vector<Type> carried(operands.begin() + 3, operands.end()), args = {operands[0]};
      args.insert(args.end(), carried.begin(), carried.end());
      return {{args, carried, "the index and the carried values"}};
    }
    case OpCode::kWhile:
      return {{operands, {{scalar_type(ElementType::kI1)}}, "the carried values"},
              {operands, operands, "the carried values"}};
    case OpCode::kIf:
      return {{{}, std::nullopt, "nothing"}, {{}, std::nullopt, "nothing"}};
    case OpCode::kReduce:
    case OpCode::kScan: {
      if (static_cast<ReduceKind>(std::get<int64_t>(attrs[0])) != ReduceKind::kCustom) return {};
      std::vector<Type> scalars;
      for (const Type& type : operands) scalars.push_back(scalar_type(type.element));
      std::vector<Type> both = scalars;
      both.insert(both.end(), scalars.begin(), scalars.end());
      return {{both, scalars, "the left and the right elements"}};
    }
    default:
      return {};
  }
}

}  // namespace kiln::dsl
