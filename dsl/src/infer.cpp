// The type rules: what all families share, and the way to each.
#include <algorithm>

#include "infer_rules.h"

namespace kiln::dsl {
namespace infer {

Error Rule::fail(const std::string& what) const {
  std::string message = op.name + ": " + what;
  for (size_t i = 0; i < in.size(); ++i) message += (i == 0 ? " (operands: " : ", ") + text(in[i]);
  return error(ErrorCode::kVerifyFailed, message + (in.empty() ? "" : ")"));
}

Problem check_same_shape(const Rule& rule) {
  for (size_t i = 1; i < rule.in.size(); ++i) {
    if (!may_equal(rule.in[i].shape, rule.in[0].shape)) {
      return rule.fail("operands have different shapes; broadcast one of them");
    }
  }
  return std::nullopt;
}

Problem check_same_type(const Rule& rule, size_t first, size_t last) {
  for (size_t i = first + 1; i <= last; ++i) {
    if (rule.in[i].element != rule.in[first].element || rule.in[i].pointer != rule.in[first].pointer) {
      return rule.fail("operands have different element types; cast one of them");
    }
  }
  return std::nullopt;
}

Problem check_no_pointers(const Rule& rule) {
  for (const Type& type : rule.in) {
    if (type.pointer) return rule.fail("takes no pointers");
  }
  return std::nullopt;
}

Problem check_axis(const Rule& rule, int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return std::nullopt;
  return rule.fail("axis " + std::to_string(axis) + " is outside the rank");
}

Problem check_extents(const Rule& rule, const std::vector<Expr>& shape) {
  if (shape.size() > 5) return rule.fail("rank " + std::to_string(shape.size()) + " is above 5");
  for (const Expr& extent : shape) {
    auto value = extent.as_constant();
    if (value && *value < 1) return rule.fail("an extent of " + std::to_string(*value) + " is below 1");
    if (value && *value > (int64_t{1} << 31))
      return rule.fail("an extent of " + std::to_string(*value) + " is too large");
  }
  return std::nullopt;
}

bool is_index(const Type& type) { return type.is_value() && is_int(type.element) && type.element != ElementType::kI1; }

namespace {

// Only the ops of described memory take a descriptor, and as their first operand.
Problem check_descriptors(const Rule& rule) {
  const bool first_may = rule.op.code == OpCode::kLoadTile || rule.op.code == OpCode::kStoreTile ||
                         rule.op.code == OpCode::kReduceTile || rule.op.code == OpCode::kGatherRows;
  if (first_may && !rule.in[0].descriptor) return rule.fail("the first operand must be a descriptor");
  for (size_t i = first_may ? 1 : 0; i < rule.in.size(); ++i) {
    if (rule.in[i].descriptor) return rule.fail("takes no descriptor as operand " + std::to_string(i));
  }
  return std::nullopt;
}

bool attr_matches(const AttrInfo& expected, const Attr& attr) {
  const int64_t* number = std::get_if<int64_t>(&attr);
  switch (expected.kind) {
    case AttrKind::kInt:
      return number != nullptr;
    case AttrKind::kFlag:
      return number && (*number == 0 || *number == 1);
    case AttrKind::kEnum:
      return number && *number >= 0 && *number < static_cast<int64_t>(expected.values.size());
    case AttrKind::kExpr:
      return std::holds_alternative<Expr>(attr);
    case AttrKind::kShape:
      return std::holds_alternative<std::vector<Expr>>(attr);
    case AttrKind::kElement:
      return std::holds_alternative<ElementType>(attr);
    case AttrKind::kLiteral:
      return std::holds_alternative<Literal>(attr) || std::holds_alternative<Expr>(attr);
    case AttrKind::kString:
      return std::holds_alternative<std::string>(attr);
  }
  return false;
}

}  // namespace
}  // namespace infer

bool may_equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (auto difference = (a - b).as_constant()) return *difference == 0;
  // Extents are positive, so that 2*B is never B.
  const auto &x = a.terms(), &y = b.terms();
  const bool multiples = std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const Term& s, const Term& t) {
    return s.atoms == t.atoms &&
           __int128{s.coefficient} * y[0].coefficient == __int128{t.coefficient} * x[0].coefficient;
  });
  return !multiples;
}

bool may_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return may_equal(x, y); });
}

bool may_equal(const Type& a, const Type& b) {
  return a.element == b.element && a.pointer == b.pointer && a.descriptor == b.descriptor &&
         may_equal(a.shape, b.shape);
}

std::optional<Attr> default_attr(const AttrInfo& attr) {
  if (!attr.default_value) return std::nullopt;
  if (attr.kind == AttrKind::kExpr) return Attr(Expr(*attr.default_value));
  return Attr(*attr.default_value);
}

std::vector<Attr> with_default_attrs(OpCode code, std::vector<Attr> attrs) {
  const auto& table = info(code).attrs;
  while (attrs.size() < table.size() && table[attrs.size()].default_value) {
    attrs.push_back(*default_attr(table[attrs.size()]));
  }
  return attrs;
}

Result<void> check_arity(OpCode code, size_t operand_count, const std::vector<Attr>& attrs) {
  const OpInfo& op = info(code);
  const bool variadic = !op.operands.empty() && op.operands.back().variadic;
  const size_t most = op.operands.size();
  const size_t least = static_cast<size_t>(std::count_if(
      op.operands.begin(), op.operands.end(), [](const OperandInfo& o) { return !o.optional && !o.variadic; }));
  if (operand_count < least || (!variadic && operand_count > most)) {
    std::string wanted = std::to_string(least) + (variadic       ? " or more"
                                                  : most > least ? " to " + std::to_string(most)
                                                                 : "");
    return error(ErrorCode::kVerifyFailed,
                 op.name + ": takes " + wanted + " operands, not " + std::to_string(operand_count));
  }
  if (attrs.size() != op.attrs.size()) {
    return error(ErrorCode::kVerifyFailed, op.name + ": takes " + std::to_string(op.attrs.size()) +
                                               " attributes, not " + std::to_string(attrs.size()));
  }
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (!infer::attr_matches(op.attrs[i], attrs[i])) {
      return error(ErrorCode::kVerifyFailed,
                   op.name + ": attribute `" + op.attrs[i].name + "` has the wrong kind or value");
    }
  }
  return {};
}

Result<std::vector<Type>> infer_types(OpCode code, const std::vector<Type>& operands, const std::vector<Attr>& attrs,
                                      const ExprNames& names, const std::vector<Type>& yields) {
  const infer::Rule rule{info(code), operands, attrs, names};
  if (auto bad = infer::check_descriptors(rule)) return *bad;
  switch (code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
    case OpCode::kConstant:
    case OpCode::kArange:
    case OpCode::kSplat:
      return infer::make(rule);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kReshape:
    case OpCode::kPermute:
    case OpCode::kJoin:
    case OpCode::kSplit:
    case OpCode::kCat:
    case OpCode::kSlice:
    case OpCode::kGather:
      return infer::shape(rule);
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kRem:
    case OpCode::kMulhi:
    case OpCode::kFma:
    case OpCode::kMin:
    case OpCode::kMax:
    case OpCode::kNeg:
    case OpCode::kAbs:
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
    case OpCode::kShl:
    case OpCode::kShr:
    case OpCode::kCmp:
    case OpCode::kSelect:
    case OpCode::kMath:
    case OpCode::kCast:
    case OpCode::kBitcast:
    case OpCode::kPhilox:
    case OpCode::kInlineAsm:
      return infer::elementwise(rule);
    case OpCode::kAddptr:
    case OpCode::kLoad:
    case OpCode::kStore:
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
    case OpCode::kDescriptor:
    case OpCode::kLoadTile:
    case OpCode::kStoreTile:
    case OpCode::kReduceTile:
    case OpCode::kGatherRows:
      return infer::memory(rule);
    case OpCode::kDot:
    case OpCode::kDotScaled:
    case OpCode::kReduce:
    case OpCode::kScan:
    case OpCode::kSort:
    case OpCode::kTopk:
    case OpCode::kHistogram:
      return infer::algebra(rule);
    case OpCode::kFor:
    case OpCode::kWhile:
    case OpCode::kIf:
    case OpCode::kYield:
      return infer::control(rule, yields);
    case OpCode::kAssume:
    case OpCode::kRequire:
    case OpCode::kAssert:
    case OpCode::kPrint:
      return infer::fact(rule);
  }
  return internal_error("an op outside the table");
}

}  // namespace kiln::dsl
