// The type rules of the ops.
#include <algorithm>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {
namespace {

struct Rule {
  const OpInfo& op;
  const std::vector<Type>& in;
  const std::vector<Attr>& attrs;
  const ExprNames& names;

  std::string text(const Type& type) const { return to_string(type, names); }

  Error fail(const std::string& what) const {
    std::string message = op.name + ": " + what;
    for (size_t i = 0; i < in.size(); ++i) message += (i == 0 ? " (operands: " : ", ") + text(in[i]);
    return error(ErrorCode::kVerifyFailed, message + (in.empty() ? "" : ")"));
  }
};

using Types = Result<std::vector<Type>>;

std::optional<Error> check_same_shape(const Rule& rule) {
  for (size_t i = 1; i < rule.in.size(); ++i) {
    if (rule.in[i].shape != rule.in[0].shape) {
      return rule.fail("operands have different shapes; broadcast one of them");
    }
  }
  return std::nullopt;
}

std::optional<Error> check_same_type(const Rule& rule, size_t first, size_t last) {
  for (size_t i = first + 1; i <= last; ++i) {
    if (rule.in[i].element != rule.in[first].element || rule.in[i].pointer != rule.in[first].pointer) {
      return rule.fail("operands have different element types; cast one of them");
    }
  }
  return std::nullopt;
}

std::optional<Error> check_no_pointers(const Rule& rule) {
  for (const Type& type : rule.in) {
    if (type.pointer) return rule.fail("takes no pointers");
  }
  return std::nullopt;
}

Types arithmetic(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_same_type(rule, 0, rule.in.size() - 1)) return *bad;
  const ElementType element = rule.in[0].element;
  switch (rule.op.code) {
    case OpCode::kFma:
    case OpCode::kMath:
      if (!is_float(element)) return rule.fail("takes floats only");
      break;
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
      if (is_float(element)) return rule.fail("takes ints or i1 only");
      break;
    case OpCode::kShl:
    case OpCode::kShr:
      if (is_float(element) || element == ElementType::kI1) return rule.fail("takes ints only");
      break;
    default:
      if (element == ElementType::kI1) return rule.fail("takes no i1; cast to an int first");
  }
  return std::vector<Type>{rule.in[0]};
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

Types convert(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  const ElementType to = std::get<ElementType>(rule.attrs[0]);
  if (rule.op.code == OpCode::kBitcast && info(to).bits != info(rule.in[0].element).bits) {
    return rule.fail("bitcast to " + std::string(info(to).name) + " changes the width");
  }
  return std::vector<Type>{tile_type(to, rule.in[0].shape)};
}

// A constant extent below 1 is an error now; a symbolic one is checked at instantiation.
std::optional<Error> check_extents(const Rule& rule, const std::vector<Expr>& shape) {
  if (shape.size() > 5) return rule.fail("rank " + std::to_string(shape.size()) + " is above 5");
  for (const Expr& extent : shape) {
    auto value = extent.as_constant();
    if (value && *value < 1) return rule.fail("an extent of " + std::to_string(*value) + " is below 1");
    if (value && *value > (int64_t{1} << 31))
      return rule.fail("an extent of " + std::to_string(*value) + " is too large");
  }
  return std::nullopt;
}

Types make(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms: {
      const int64_t axis = std::get<int64_t>(rule.attrs[0]);
      if (axis < 0 || axis > 2) return rule.fail("axis " + std::to_string(axis) + " is not 0, 1 or 2");
      return std::vector<Type>{scalar_type(ElementType::kI32)};
    }
    case OpCode::kConstant: {
      const ElementType element = std::get<ElementType>(rule.attrs[1]);
      if (const Expr* value = std::get_if<Expr>(&rule.attrs[0])) {
        auto known = value->as_constant();
        if (known && !int_fits(element, *known)) {
          return rule.fail(std::to_string(*known) + " is not a value of " + std::string(info(element).name));
        }
      }
      return std::vector<Type>{scalar_type(element)};
    }
    case OpCode::kArange: {
      std::vector<Expr> shape = {std::get<Expr>(rule.attrs[1]) - std::get<Expr>(rule.attrs[0])};
      if (auto bad = check_extents(rule, shape)) return *bad;
      return std::vector<Type>{tile_type(ElementType::kI32, shape)};
    }
    default: {  // kSplat
      if (!rule.in[0].is_scalar()) return rule.fail("takes a scalar; use broadcast for a tile");
      const auto& shape = std::get<std::vector<Expr>>(rule.attrs[0]);
      if (auto bad = check_extents(rule, shape)) return *bad;
      return std::vector<Type>{{rule.in[0].element, rule.in[0].pointer, shape}};
    }
  }
}

Types reshape(const Rule& rule) {
  Type out = rule.in[0];
  const int rank = out.rank();
  switch (rule.op.code) {
    case OpCode::kBroadcast: {
      const auto& shape = std::get<std::vector<Expr>>(rule.attrs[0]);
      if (static_cast<int>(shape.size()) != rank) return rule.fail("keeps the rank; use expand_dims first");
      if (auto bad = check_extents(rule, shape)) return *bad;
      for (int i = 0; i < rank; ++i) {
        if (!(out.shape[i] == shape[i]) && out.shape[i].as_constant() != 1) {
          return rule.fail("axis " + std::to_string(i) + " of extent " + to_string(out.shape[i], rule.names) +
                           " cannot become " + to_string(shape[i], rule.names));
        }
      }
      out.shape = shape;
      return std::vector<Type>{out};
    }
    case OpCode::kExpandDims: {
      const int64_t axis = std::get<int64_t>(rule.attrs[0]);
      if (axis < 0 || axis > rank) return rule.fail("axis " + std::to_string(axis) + " is outside 0…rank");
      if (rank == 5) return rule.fail("the rank would be above 5");
      out.shape.insert(out.shape.begin() + axis, Expr(1));
      return std::vector<Type>{out};
    }
    default: {  // kPermute
      const auto& order = std::get<std::vector<Expr>>(rule.attrs[0]);
      std::vector<bool> seen(static_cast<size_t>(rank), false);
      std::vector<Expr> shape;
      for (const Expr& axis : order) {
        const int64_t index = axis.as_constant().value_or(-1);
        if (index < 0 || index >= rank || seen[index]) return rule.fail("order is not a permutation of the axes");
        seen[index] = true;
        shape.push_back(rule.in[0].shape[index]);
      }
      if (static_cast<int>(shape.size()) != rank) return rule.fail("order is not a permutation of the axes");
      out.shape = shape;
      return std::vector<Type>{out};
    }
  }
}

Types memory(const Rule& rule) {
  const Type& pointer = rule.in[0];
  if (!pointer.pointer) return rule.fail("the first operand must be a pointer");
  if (rule.op.code == OpCode::kAddptr) {
    const Type& offset = rule.in[1];
    if (offset.pointer || is_float(offset.element) || offset.element == ElementType::kI1) {
      return rule.fail("the offset must be an int");
    }
    if (offset.shape != pointer.shape)
      return rule.fail("pointer and offset have different shapes; broadcast one of them");
    return std::vector<Type>{pointer};
  }
  if (auto bad = check_same_shape(rule)) return *bad;
  const bool is_store = rule.op.code == OpCode::kStore;
  const size_t mask = is_store ? 2 : 1, value = is_store ? 1 : 2;
  if (rule.in.size() > mask && (rule.in[mask].element != ElementType::kI1 || rule.in[mask].pointer)) {
    return rule.fail("the mask must be i1");
  }
  if (rule.in.size() > value && (rule.in[value].element != pointer.element || rule.in[value].pointer)) {
    return rule.fail(std::string(is_store ? "the stored value" : "`other`") + " must have the pointer's element type " +
                     std::string(info(pointer.element).name));
  }
  if (is_store) return std::vector<Type>{};
  return std::vector<Type>{tile_type(pointer.element, pointer.shape)};
}

// What dot accumulates in.
ElementType accumulator_of(ElementType element) {
  if (is_int(element)) return ElementType::kI32;
  return element == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
}

Types dot(const Rule& rule) {
  const Type &a = rule.in[0], &b = rule.in[1], &acc = rule.in[2];
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (a.rank() != 2 || b.rank() != 2 || acc.rank() != 2) return rule.fail("takes tiles of rank 2");
  if (a.element != b.element) return rule.fail("a and b have different element types; cast one of them");
  if (is_int(a.element) && info(a.element).bits != 8) return rule.fail("int operands must be i8 or u8");
  if (!(a.shape[1] == b.shape[0])) {
    return rule.fail("the inner extents " + to_string(a.shape[1], rule.names) + " and " +
                     to_string(b.shape[0], rule.names) + " differ");
  }
  Type out = tile_type(accumulator_of(a.element), {a.shape[0], b.shape[1]});
  if (acc != out) return rule.fail("the accumulator must be " + rule.text(out));
  return std::vector<Type>{out};
}

Types reduce(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  Type out = rule.in[0];
  const int64_t axis = std::get<int64_t>(rule.attrs[1]);
  if (axis < 0 || axis >= out.rank()) return rule.fail("axis " + std::to_string(axis) + " is outside the rank");
  if (out.element == ElementType::kI1) return rule.fail("takes no i1; cast to an int first");
  out.shape.erase(out.shape.begin() + axis);
  return std::vector<Type>{out};
}

Types loop(const Rule& rule) {
  for (size_t i = 0; i < 3; ++i) {
    const Type& bound = rule.in[i];
    if (!bound.is_scalar() || bound.pointer || is_float(bound.element) || bound.element == ElementType::kI1) {
      return rule.fail("start, end and step must be scalar ints");
    }
  }
  if (auto bad = check_same_type(rule, 0, 2)) return *bad;
  return std::vector<Type>(rule.in.begin() + 3, rule.in.end());
}

Types fact(const Rule& rule) {
  if (rule.op.code == OpCode::kAssume) {
    const Type& type = rule.in[0];
    if (!type.is_scalar() || (!type.pointer && (is_float(type.element) || type.element == ElementType::kI1))) {
      return rule.fail("takes a scalar int or a scalar pointer");
    }
    auto multiple = std::get<Expr>(rule.attrs[0]).as_constant();
    if (multiple && *multiple < 1) return rule.fail("multiple_of must be 1 or more");
  }
  return std::vector<Type>{};
}

bool attr_matches(const AttrInfo& expected, const Attr& attr) {
  switch (expected.kind) {
    case AttrKind::kInt:
      return std::holds_alternative<int64_t>(attr);
    case AttrKind::kEnum: {
      const int64_t* value = std::get_if<int64_t>(&attr);
      return value && *value >= 0 && *value < static_cast<int64_t>(expected.values.size());
    }
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
    if (!attr_matches(op.attrs[i], attrs[i])) {
      return error(ErrorCode::kVerifyFailed,
                   op.name + ": attribute `" + op.attrs[i].name + "` has the wrong kind or value");
    }
  }
  return {};
}

Result<std::vector<Type>> infer_types(OpCode code, const std::vector<Type>& operands, const std::vector<Attr>& attrs,
                                      const ExprNames& names) {
  const Rule rule{info(code), operands, attrs, names};
  switch (code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
    case OpCode::kConstant:
    case OpCode::kArange:
    case OpCode::kSplat:
      return make(rule);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return reshape(rule);
    case OpCode::kCmp:
      return compare(rule);
    case OpCode::kSelect:
      return select(rule);
    case OpCode::kCast:
    case OpCode::kBitcast:
      return convert(rule);
    case OpCode::kAddptr:
    case OpCode::kLoad:
    case OpCode::kStore:
      return memory(rule);
    case OpCode::kDot:
      return dot(rule);
    case OpCode::kReduce:
      return reduce(rule);
    case OpCode::kFor:
      return loop(rule);
    case OpCode::kYield:
      return std::vector<Type>{};
    case OpCode::kAssume:
    case OpCode::kRequire:
      return fact(rule);
    default:
      return arithmetic(rule);
  }
}

}  // namespace kiln::dsl
