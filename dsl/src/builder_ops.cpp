// The operators and functions that make one op each, with promotion and broadcasting in front of it.
#include "trace.h"

namespace kiln::dsl::lang {
namespace {

// Promotes and broadcasts the operands of an elementwise op and emits it.
Value elementwise(OpCode code, const std::vector<Operand>& operands, std::vector<Attr> attrs = {}) {
  const std::source_location loc = operands[0].loc();
  const std::string& what = info(code).name;
  std::vector<Value> values = broadcast_all(promote(operands, what), what, loc);
  return values.empty() ? Value() : emit(code, values, std::move(attrs), loc);
}

Value compare(Predicate predicate, Operand a, Operand b) {
  return elementwise(OpCode::kCmp, {std::move(a), std::move(b)}, {static_cast<int64_t>(predicate)});
}

Value math(MathFn fn, const Operand& x) {
  return emit(OpCode::kMath, {materialise(x)}, {static_cast<int64_t>(fn)}, x.loc());
}

bool is_pointer(const Operand& operand) { return operand.is_value() && operand.value().type().pointer; }

// pointer + offset, each a scalar or a tile.
Value move_pointer(const Operand& pointer, const Operand& offset, const std::source_location& loc) {
  std::vector<Value> values = broadcast_all({pointer.value(), materialise(offset)}, "addptr", loc);
  return values.empty() ? Value() : emit(OpCode::kAddptr, values, {}, loc);
}

Value reduce(ReduceKind kind, const Value& x, int axis, const std::source_location& loc) {
  if (!x.valid()) return {};
  auto index = resolve_axis(axis, x.rank(), "reduce", loc);
  return index ? emit(OpCode::kReduce, {x}, {static_cast<int64_t>(kind), *index}, loc) : Value();
}

Const apply(AtomKind kind, const Const& a, const Const& b) { return Const(Expr::apply(kind, a.expr(), b.expr())); }

}  // namespace

// --- Const ---
Const operator+(const Const& a, const Const& b) { return Const(a.expr() + b.expr()); }
Const operator-(const Const& a, const Const& b) { return Const(a.expr() - b.expr()); }
Const operator*(const Const& a, const Const& b) { return Const(a.expr() * b.expr()); }
Const operator/(const Const& a, const Const& b) { return apply(AtomKind::kDiv, a, b); }
Const operator%(const Const& a, const Const& b) { return apply(AtomKind::kRem, a, b); }
Const operator-(const Const& a) { return Const(Expr(0) - a.expr()); }
Const min(const Const& a, const Const& b) { return apply(AtomKind::kMin, a, b); }
Const max(const Const& a, const Const& b) { return apply(AtomKind::kMax, a, b); }
Const operator==(const Const& a, const Const& b) { return apply(AtomKind::kEq, a, b); }
Const operator!=(const Const& a, const Const& b) { return apply(AtomKind::kNe, a, b); }
Const operator<(const Const& a, const Const& b) { return apply(AtomKind::kLt, a, b); }
Const operator<=(const Const& a, const Const& b) { return apply(AtomKind::kLe, a, b); }
Const operator>(const Const& a, const Const& b) { return apply(AtomKind::kLt, b, a); }
Const operator>=(const Const& a, const Const& b) { return apply(AtomKind::kLe, b, a); }
Const operator!(const Const& a) { return apply(AtomKind::kEq, a, Const(0)); }
Const operator&&(const Const& a, const Const& b) { return (a != Const(0)) * (b != Const(0)); }
Const operator||(const Const& a, const Const& b) { return max(a != Const(0), b != Const(0)); }

// --- Value ---
Value operator+(Operand a, Operand b) {
  if (is_pointer(a)) return move_pointer(a, b, a.loc());
  if (is_pointer(b)) return move_pointer(b, a, a.loc());
  return elementwise(OpCode::kAdd, {std::move(a), std::move(b)});
}
Value operator-(Operand a, Operand b) {
  if (is_pointer(a) && !is_pointer(b)) return move_pointer(a, Operand(-b, a.loc()), a.loc());
  return elementwise(OpCode::kSub, {std::move(a), std::move(b)});
}
Value operator*(Operand a, Operand b) { return elementwise(OpCode::kMul, {std::move(a), std::move(b)}); }
Value operator/(Operand a, Operand b) { return elementwise(OpCode::kDiv, {std::move(a), std::move(b)}); }
Value operator%(Operand a, Operand b) { return elementwise(OpCode::kRem, {std::move(a), std::move(b)}); }
Value operator&(Operand a, Operand b) { return elementwise(OpCode::kAnd, {std::move(a), std::move(b)}); }
Value operator|(Operand a, Operand b) { return elementwise(OpCode::kOr, {std::move(a), std::move(b)}); }
Value operator^(Operand a, Operand b) { return elementwise(OpCode::kXor, {std::move(a), std::move(b)}); }
Value operator<<(Operand a, Operand b) { return elementwise(OpCode::kShl, {std::move(a), std::move(b)}); }
Value operator>>(Operand a, Operand b) { return elementwise(OpCode::kShr, {std::move(a), std::move(b)}); }
Value operator-(Operand a) { return emit(OpCode::kNeg, {materialise(a)}, {}, a.loc()); }

Value operator~(Operand a) {
  const Value x = materialise(a);
  if (!x.valid()) return {};
  const ElementType type = x.element();
  if (is_float(type)) {
    report(a.loc(), "~: takes ints or i1 only (" + type_text(x.type()) + ")");
    return {};
  }
  // All ones of the type: -1, the largest unsigned number, or true.
  const int bits = info(type).bits;
  const Operand ones = info(type).is_signed ? Operand(-1) : Operand(~uint64_t{0} >> (64 - bits));
  return elementwise(OpCode::kXor, {Operand(x, a.loc()), ones});
}

Value operator!(Operand a) {
  const Value x = materialise(a);
  if (x.valid() && x.element() != ElementType::kI1) {
    report(a.loc(), "!: takes i1 only; compare with 0 (" + type_text(x.type()) + ")");
    return {};
  }
  return ~Operand(x, a.loc());
}

Value operator==(Operand a, Operand b) { return compare(Predicate::kEq, std::move(a), std::move(b)); }
Value operator!=(Operand a, Operand b) { return compare(Predicate::kNe, std::move(a), std::move(b)); }
Value operator<(Operand a, Operand b) { return compare(Predicate::kLt, std::move(a), std::move(b)); }
Value operator<=(Operand a, Operand b) { return compare(Predicate::kLe, std::move(a), std::move(b)); }
Value operator>(Operand a, Operand b) { return compare(Predicate::kGt, std::move(a), std::move(b)); }
Value operator>=(Operand a, Operand b) { return compare(Predicate::kGe, std::move(a), std::move(b)); }

// --- program, make, shape ---
Value program_id(int axis, SourceLocation loc) { return emit(OpCode::kProgramId, {}, {int64_t{axis}}, loc); }
Value num_programs(int axis, SourceLocation loc) { return emit(OpCode::kNumPrograms, {}, {int64_t{axis}}, loc); }

Value arange(Const start, Const end, SourceLocation loc) {
  return emit(OpCode::kArange, {}, {start.expr(), end.expr()}, loc);
}

Value splat(Operand scalar, Shape shape) {
  return emit(OpCode::kSplat, {materialise(scalar)}, {exprs(shape)}, scalar.loc());
}

Value full(Shape shape, Operand value, ElementType type) {
  const Value scalar = cast(value, type);
  return shape.empty() ? scalar : emit(OpCode::kSplat, {scalar}, {exprs(shape)}, value.loc());
}

Value zeros(ElementType type, Shape shape, SourceLocation loc) { return full(std::move(shape), Operand(0, loc), type); }

Value broadcast_to(Operand x, Shape shape) {
  return broadcast_value(materialise(x), exprs(shape), "broadcast_to", x.loc());
}

Value expand_dims(Operand x, int axis) {
  const Value value = materialise(x);
  if (!value.valid()) return {};
  auto index = resolve_axis(axis, value.rank() + 1, "expand_dims", x.loc());
  return index ? emit(OpCode::kExpandDims, {value}, {*index}, x.loc()) : Value();
}

Value permute(Operand x, std::vector<int> order) {
  std::vector<Expr> axes;
  for (int axis : order) axes.push_back(Expr(axis));
  return emit(OpCode::kPermute, {materialise(x)}, {axes}, x.loc());
}

Value trans(Operand x) {
  const Value value = materialise(x);
  if (!value.valid()) return {};
  const int rank = value.rank();
  if (rank < 2) {
    report(x.loc(), "trans: takes tiles of rank 2 or more (" + type_text(value.type()) + ")");
    return {};
  }
  std::vector<int> order;
  for (int axis = 0; axis < rank - 2; ++axis) order.push_back(axis);
  order.push_back(rank - 1);
  order.push_back(rank - 2);
  return permute(Operand(value, x.loc()), order);
}

// --- arithmetic, choice, conversion, math ---
Value fma(Operand a, Operand b, Operand c) {
  return elementwise(OpCode::kFma, {std::move(a), std::move(b), std::move(c)});
}
Value min(Operand a, Operand b) { return elementwise(OpCode::kMin, {std::move(a), std::move(b)}, {int64_t{0}}); }
Value max(Operand a, Operand b) { return elementwise(OpCode::kMax, {std::move(a), std::move(b)}, {int64_t{0}}); }
Value abs(Operand x) { return emit(OpCode::kAbs, {materialise(x)}, {}, x.loc()); }

Value where(Operand condition, Operand a, Operand b) {
  std::vector<Value> values = promote({a, b}, "select");
  if (values.empty()) return {};
  values.insert(values.begin(), condition.is_value() ? condition.value() : constant(condition, i1_t, condition.loc()));
  values = broadcast_all(std::move(values), "select", condition.loc());
  return values.empty() ? Value() : emit(OpCode::kSelect, values, {}, condition.loc());
}

Value cast(Operand x, ElementType to) {
  if (x.present() && !x.is_value()) return constant(x, to, x.loc());
  const Value value = materialise(x);
  if (!value.valid() || (value.element() == to && !value.type().pointer)) return value;
  return emit(OpCode::kCast, {value}, {to}, x.loc());
}

Value bitcast(Operand x, ElementType to) { return emit(OpCode::kBitcast, {materialise(x)}, {to}, x.loc()); }

Value exp(Operand x) { return math(MathFn::kExp, x); }
Value exp2(Operand x) { return math(MathFn::kExp2, x); }
Value log(Operand x) { return math(MathFn::kLog, x); }
Value log2(Operand x) { return math(MathFn::kLog2, x); }
Value sin(Operand x) { return math(MathFn::kSin, x); }
Value cos(Operand x) { return math(MathFn::kCos, x); }
Value tanh(Operand x) { return math(MathFn::kTanh, x); }
Value erf(Operand x) { return math(MathFn::kErf, x); }
Value sqrt(Operand x) { return math(MathFn::kSqrt, x); }
Value rsqrt(Operand x) { return math(MathFn::kRsqrt, x); }
Value floor(Operand x) { return math(MathFn::kFloor, x); }
Value ceil(Operand x) { return math(MathFn::kCeil, x); }
Value round(Operand x) { return math(MathFn::kRound, x); }
Value trunc(Operand x) { return math(MathFn::kTrunc, x); }

// --- tile algebra ---
Value dot(Operand a, Operand b, Operand acc, Precision precision) {
  const Value x = materialise(a), y = materialise(b);
  if (!x.valid() || !y.valid()) return {};
  const Type lhs = x.type(), rhs = y.type();
  Value sum = acc.present() ? materialise(acc) : Value();
  if (!acc.present() && lhs.rank() == 2 && rhs.rank() == 2) {
    const ElementType element = is_int(lhs.element) ? i32_t : lhs.element == ElementType::kF64 ? f64_t : f32_t;
    sum = zeros(element, {Const(lhs.shape[0]), Const(rhs.shape[1])}, a.loc());
  } else if (!acc.present()) {
    report(a.loc(), "dot: takes tiles of rank 2 (operands: " + type_text(lhs) + ", " + type_text(rhs) + ")");
  }
  return emit(OpCode::kDot, {x, y, sum}, {static_cast<int64_t>(precision)}, a.loc());
}

Value sum(Operand x, int axis) {
  Value value = materialise(x);
  if (!value.valid()) return {};
  const ElementTypeInfo& element = info(value.element());
  const bool narrow = !value.type().pointer && !element.is_float && element.bits < 32;
  if (narrow) value = cast(Operand(value, x.loc()), element.is_signed || element.bits == 1 ? i32_t : u32_t);
  return reduce(ReduceKind::kSum, value, axis, x.loc());
}
Value prod(Operand x, int axis) { return reduce(ReduceKind::kProd, materialise(x), axis, x.loc()); }
Value reduce_max(Operand x, int axis) { return reduce(ReduceKind::kMax, materialise(x), axis, x.loc()); }
Value reduce_min(Operand x, int axis) { return reduce(ReduceKind::kMin, materialise(x), axis, x.loc()); }

}  // namespace kiln::dsl::lang
