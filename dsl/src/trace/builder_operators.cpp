// The operators on constants and values.
#include "trace/trace.h"

namespace kiln::dsl::lang {
namespace {

Value compare(Predicate predicate, Operand a, Operand b) {
  return elementwise(OpCode::kCmp, {std::move(a), std::move(b)}, {static_cast<int64_t>(predicate)});
}

// pointer + offset, each a scalar or a tile.
Value move_pointer(const Operand& pointer, const Operand& offset, const std::source_location& loc) {
  std::vector<Value> values = broadcast_all({pointer.value(), materialise(offset)}, "addptr", loc);
  return values.empty() ? Value() : emit(OpCode::kAddptr, values, {}, loc);
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

Value operator!(const Value& x) {
  const Trace* trace = Trace::current();
  const Operand a(x, trace ? trace->last_loc() : SourceLocation::current());
  if (x.valid() && x.element() != ElementType::kI1) {
    report(a.loc(), "!: takes i1 only; compare with 0 (" + type_text(x.type()) + ")");
    return {};
  }
  return ~a;
}

Value operator!(const Var& x) { return !Value(x); }

Value operator==(Operand a, Operand b) { return compare(Predicate::kEq, std::move(a), std::move(b)); }
Value operator!=(Operand a, Operand b) { return compare(Predicate::kNe, std::move(a), std::move(b)); }
Value operator<(Operand a, Operand b) { return compare(Predicate::kLt, std::move(a), std::move(b)); }
Value operator<=(Operand a, Operand b) { return compare(Predicate::kLe, std::move(a), std::move(b)); }
Value operator>(Operand a, Operand b) { return compare(Predicate::kGt, std::move(a), std::move(b)); }
Value operator>=(Operand a, Operand b) { return compare(Predicate::kGe, std::move(a), std::move(b)); }

}  // namespace kiln::dsl::lang
