// The type rules: what all families share, and the way to each.
#include <algorithm>

#include "ir/infer_rules.h"

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
  const bool first_may = rule.op.family == OpFamily::kDescribed && rule.op.code != OpCode::kDescriptor;
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
  switch (rule.op.family) {
    case OpFamily::kProgram:
    case OpFamily::kMake:
      return infer::make(rule);
    case OpFamily::kView:
    case OpFamily::kPair:
    case OpFamily::kMovement:
      return infer::shape(rule);
    case OpFamily::kArithmetic:
    case OpFamily::kBits:
    case OpFamily::kChoice:
    case OpFamily::kMath:
    case OpFamily::kConversion:
    case OpFamily::kRandom:
    case OpFamily::kAsm:
      return infer::elementwise(rule);
    case OpFamily::kMemory:
    case OpFamily::kAtomic:
      return infer::memory(rule);
    case OpFamily::kDescribed:
      return infer::described(rule);
    case OpFamily::kDot:
    case OpFamily::kCollective:
      return infer::algebra(rule);
    case OpFamily::kControl:
      return infer::control(rule, yields);
    case OpFamily::kFact:
      return infer::fact(rule);
  }
  return internal_error("an op outside the table");
}

}  // namespace kiln::dsl
