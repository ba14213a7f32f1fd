// Type rules: products, reductions, scans, orders.
#include "ir/infer_rules.h"

namespace kiln::dsl::infer {
namespace {

// What dot accumulates in.
ElementType accumulator_of(ElementType element) {
  if (is_int(element)) return ElementType::kI32;
  return element == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
}

bool is_byte(ElementType element) { return element == ElementType::kI8 || element == ElementType::kU8; }

Types dot(const Rule& rule) {
  const Type &a = rule.in[0], &b = rule.in[1], &acc = rule.in[2];
  if (auto bad = check_no_pointers(rule)) return *bad;
  const int rank = a.rank();
  if ((rank != 2 && rank != 3) || b.rank() != rank || acc.rank() != rank) {
    return rule.fail("takes tiles of rank 2, or of rank 3 with a batch in front");
  }
  const bool mixed_bytes = is_byte(a.element) && is_byte(b.element);
  if (a.element != b.element && !mixed_bytes) {
    return rule.fail("a and b have different element types; cast one of them");
  }
  if (is_int(a.element) && !is_byte(a.element)) return rule.fail("int operands must be i8 or u8");
  if (static_cast<Precision>(rule.number(0)) != Precision::kIeee && a.element != ElementType::kF32) {
    return rule.fail("a precision other than ieee is for f32 operands");
  }
  const size_t row = a.shape.size() - 2, column = row + 1;
  if (!may_equal(a.shape[column], b.shape[row])) {
    return rule.fail("the inner extents " + rule.text(a.shape[column]) + " and " + rule.text(b.shape[row]) + " differ");
  }
  if (rank == 3 && !may_equal(a.shape[0], b.shape[0])) {
    return rule.fail("the batches " + rule.text(a.shape[0]) + " and " + rule.text(b.shape[0]) + " differ");
  }
  Type out = tile_type(accumulator_of(a.element), a.shape);
  out.shape[column] = b.shape[column];
  if (!may_equal(acc, out)) return rule.fail("the accumulator must be " + rule.text(out));
  return std::vector<Type>{out};
}

// The extent along K of an MX operand: u8 packs two elements.
Expr scaled_extent(const Type& type, size_t axis) {
  return type.element == ElementType::kU8 ? Expr(2) * type.shape[axis] : type.shape[axis];
}

bool is_mx_operand(ElementType element) {
  return element == ElementType::kU8 || element == ElementType::kF8E4M3 || element == ElementType::kF8E5M2;
}

Types dot_scaled(const Rule& rule) {
  const Type &a = rule.in[0], &a_scale = rule.in[1], &b = rule.in[2], &b_scale = rule.in[3];
  if (auto bad = check_no_pointers(rule)) return *bad;
  for (const Type& type : rule.in) {
    if (type.rank() != 2) return rule.fail("takes tiles of rank 2");
  }
  if (!is_mx_operand(a.element) || !is_mx_operand(b.element)) {
    return rule.fail("a and b must be f8e4m3, f8e5m2, or u8 that packs two e2m1");
  }
  const Expr k = scaled_extent(a, 1), k_of_b = scaled_extent(b, 0);
  if (!may_equal(k, k_of_b)) {
    return rule.fail("the inner extents " + rule.text(k) + " and " + rule.text(k_of_b) + " differ");
  }
  auto check_scale = [&](const Type& scale, const Expr& rows, const char* name) -> Problem {
    if (scale.element == ElementType::kU8 && may_equal(scale.shape[0], rows) &&
        may_equal(Expr(32) * scale.shape[1], k)) {
      return std::nullopt;
    }
    return rule.fail(std::string(name) + " must be u8 with one number per 32 elements along K = " + rule.text(k) +
                     ": [" + rule.text(rows) + ", K/32]");
  };
  if (auto bad = check_scale(a_scale, a.shape[0], "a_scale")) return *bad;
  if (auto bad = check_scale(b_scale, b.shape[1], "b_scale")) return *bad;
  const Type out = tile_type(ElementType::kF32, {a.shape[0], b.shape[1]});
  if (!may_equal(rule.in[4], out)) return rule.fail("the accumulator must be " + rule.text(out));
  return std::vector<Type>{out};
}

// What the kind takes; "" when it takes the element type.
std::string kind_problem(ReduceKind kind, ElementType element) {
  switch (kind) {
    case ReduceKind::kAnd:
    case ReduceKind::kOr:
    case ReduceKind::kXor:
      return is_int(element) ? "" : "and, or and xor are for ints and i1";
    case ReduceKind::kCustom:
      return "";
    default:
      return element == ElementType::kI1 ? "takes no i1; cast to an int first, or use and, or, xor" : "";
  }
}

// reduce and scan: the operands as they are, once all is well.
Types combined(const Rule& rule) {
  const ReduceKind kind = static_cast<ReduceKind>(rule.number(0));
  if (rule.in.empty()) return rule.fail("takes at least one operand");
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_axis(rule, rule.number(1), rule.in[0].rank())) return *bad;
  if (kind != ReduceKind::kCustom && rule.in.size() != 1) {
    return rule.fail("only custom takes more than one operand");
  }
  const std::string problem = kind_problem(kind, rule.in[0].element);
  if (!problem.empty()) return rule.fail(problem);
  return rule.in;
}

Types reduce(const Rule& rule) {
  auto types = combined(rule);
  if (!types) return types;
  const ReduceKind kind = static_cast<ReduceKind>(rule.number(0));
  for (Type& type : *types) {
    type.shape = rule.in[0].shape;
    type.shape.erase(type.shape.begin() + rule.number(1));
    if (kind == ReduceKind::kArgmin || kind == ReduceKind::kArgmax) type.element = ElementType::kI32;
  }
  return types;
}

Types scan(const Rule& rule) {
  const ReduceKind kind = static_cast<ReduceKind>(rule.number(0));
  if (kind == ReduceKind::kArgmin || kind == ReduceKind::kArgmax) return rule.fail("argmin and argmax are for reduce");
  auto types = combined(rule);
  if (!types) return types;
  for (Type& type : *types) type.shape = rule.in[0].shape;
  return types;
}

Types sort(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_axis(rule, rule.number(0), rule.in[0].rank())) return *bad;
  return rule.in;
}

Types topk(const Rule& rule) {
  if (auto bad = check_no_pointers(rule)) return *bad;
  Type values = rule.in[0];
  if (auto bad = check_axis(rule, rule.number(1), values.rank())) return *bad;
  Expr& extent = values.shape[static_cast<size_t>(rule.number(1))];
  const Expr& k = rule.expr(0);
  if (k.as_constant().value_or(1) < 1 || (extent - k).as_constant().value_or(0) < 0) {
    return rule.fail("k = " + rule.text(k) + " is not 1 to the extent " + rule.text(extent));
  }
  extent = k;
  return std::vector<Type>{values, tile_type(ElementType::kI32, values.shape)};
}

Types histogram(const Rule& rule) {
  if (!is_index(rule.in[0]) || rule.in[0].is_scalar()) return rule.fail("takes a tile of ints");
  std::vector<Expr> shape = {rule.expr(0)};
  if (auto bad = check_extents(rule, shape)) return *bad;
  return std::vector<Type>{tile_type(ElementType::kI32, shape)};
}

}  // namespace

Types algebra(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kDot:
      return dot(rule);
    case OpCode::kDotScaled:
      return dot_scaled(rule);
    case OpCode::kReduce:
      return reduce(rule);
    case OpCode::kScan:
      return scan(rule);
    case OpCode::kSort:
      return sort(rule);
    case OpCode::kTopk:
      return topk(rule);
    default:
      return histogram(rule);
  }
}

}  // namespace kiln::dsl::infer
