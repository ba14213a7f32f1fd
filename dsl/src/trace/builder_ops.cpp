// Arithmetic, choice, conversion and math: one op each, with promotion and broadcasting in front of it.
#include "trace/trace.h"

namespace kiln::dsl::lang {

Value elementwise(OpCode code, const std::vector<Operand>& operands, std::vector<Attr> attrs) {
  const std::source_location loc = operands[0].loc();
  const std::string& what = info(code).name;
  std::vector<Value> values = broadcast_all(promote(operands, what), what, loc);
  return values.empty() ? Value() : emit(code, values, std::move(attrs), loc);
}

namespace {

int64_t flag(Accuracy accuracy) { return accuracy == Accuracy::kFast; }
int64_t flag(NanRule rule) { return rule == NanRule::kNumeric; }

Value math(MathFn fn, const Operand& x, Accuracy accuracy = Accuracy::kFull) {
  return emit(OpCode::kMath, {materialise(x)}, {static_cast<int64_t>(fn), flag(accuracy)}, x.loc());
}
Value math(MathFn fn, const Operand& x, const Operand& y, Accuracy accuracy) {
  return elementwise(OpCode::kMath, {x, y}, {static_cast<int64_t>(fn), flag(accuracy)});
}

}  // namespace

Value div(Operand a, Operand b, Accuracy accuracy) { return elementwise(OpCode::kDiv, {a, b}, {flag(accuracy)}); }
Value mulhi(Operand a, Operand b) { return elementwise(OpCode::kMulhi, {a, b}); }
Value fma(Operand a, Operand b, Operand c) { return elementwise(OpCode::kFma, {a, b, c}); }
Value min(Operand a, Operand b, NanRule rule) { return elementwise(OpCode::kMin, {a, b}, {flag(rule)}); }
Value max(Operand a, Operand b, NanRule rule) { return elementwise(OpCode::kMax, {a, b}, {flag(rule)}); }
Value abs(Operand x) { return emit(OpCode::kAbs, {materialise(x)}, {}, x.loc()); }

Value where(Operand condition, Operand a, Operand b) {
  std::vector<Value> values = promote_or_pointers({a, b}, "select");
  if (values.empty()) return {};
  values.insert(values.begin(), as_value(condition, i1_t));
  values = broadcast_all(std::move(values), "select", condition.loc());
  return values.empty() ? Value() : emit(OpCode::kSelect, values, {}, condition.loc());
}

Value cast(Operand x, ElementType to, CastOptions options) {
  if (x.present() && !x.is_value()) return constant(x, to, x.loc());
  const Value value = materialise(x);
  if (!value.valid() || (value.element() == to && value.type().is_value())) return value;
  std::vector<Value> operands = {value};
  if (options.random.present()) {
    operands.push_back(broadcast_value(materialise(options.random), value.type().shape, "cast", x.loc()));
  }
  return emit(OpCode::kCast, operands, {to, static_cast<int64_t>(options.rounding), int64_t{options.saturate}},
              x.loc());
}

Value bitcast(Operand x, ElementType to) { return emit(OpCode::kBitcast, {materialise(x)}, {to}, x.loc()); }

Value exp(Operand x, Accuracy accuracy) { return math(MathFn::kExp, x, accuracy); }
Value exp2(Operand x, Accuracy accuracy) { return math(MathFn::kExp2, x, accuracy); }
Value expm1(Operand x, Accuracy accuracy) { return math(MathFn::kExpm1, x, accuracy); }
Value log(Operand x, Accuracy accuracy) { return math(MathFn::kLog, x, accuracy); }
Value log2(Operand x, Accuracy accuracy) { return math(MathFn::kLog2, x, accuracy); }
Value log10(Operand x, Accuracy accuracy) { return math(MathFn::kLog10, x, accuracy); }
Value log1p(Operand x, Accuracy accuracy) { return math(MathFn::kLog1p, x, accuracy); }
Value sin(Operand x, Accuracy accuracy) { return math(MathFn::kSin, x, accuracy); }
Value cos(Operand x, Accuracy accuracy) { return math(MathFn::kCos, x, accuracy); }
Value tan(Operand x, Accuracy accuracy) { return math(MathFn::kTan, x, accuracy); }
Value asin(Operand x, Accuracy accuracy) { return math(MathFn::kAsin, x, accuracy); }
Value acos(Operand x, Accuracy accuracy) { return math(MathFn::kAcos, x, accuracy); }
Value atan(Operand x, Accuracy accuracy) { return math(MathFn::kAtan, x, accuracy); }
Value sinh(Operand x, Accuracy accuracy) { return math(MathFn::kSinh, x, accuracy); }
Value cosh(Operand x, Accuracy accuracy) { return math(MathFn::kCosh, x, accuracy); }
Value tanh(Operand x, Accuracy accuracy) { return math(MathFn::kTanh, x, accuracy); }
Value erf(Operand x, Accuracy accuracy) { return math(MathFn::kErf, x, accuracy); }
Value erfc(Operand x, Accuracy accuracy) { return math(MathFn::kErfc, x, accuracy); }
Value sqrt(Operand x, Accuracy accuracy) { return math(MathFn::kSqrt, x, accuracy); }
Value rsqrt(Operand x, Accuracy accuracy) { return math(MathFn::kRsqrt, x, accuracy); }
Value atan2(Operand y, Operand x, Accuracy accuracy) { return math(MathFn::kAtan2, y, x, accuracy); }
Value pow(Operand x, Operand y, Accuracy accuracy) { return math(MathFn::kPow, x, y, accuracy); }
Value hypot(Operand x, Operand y, Accuracy accuracy) { return math(MathFn::kHypot, x, y, accuracy); }
Value copysign(Operand magnitude, Operand sign) { return math(MathFn::kCopysign, magnitude, sign, Accuracy::kFull); }
Value signbit(Operand x) { return math(MathFn::kSignbit, x); }
Value floor(Operand x) { return math(MathFn::kFloor, x); }
Value ceil(Operand x) { return math(MathFn::kCeil, x); }
Value round(Operand x) { return math(MathFn::kRound, x); }
Value trunc(Operand x) { return math(MathFn::kTrunc, x); }
Value isnan(Operand x) { return math(MathFn::kIsnan, x); }
Value isinf(Operand x) { return math(MathFn::kIsinf, x); }

// The words are one stream per seed and offset: casts to u64 keep the bits of signed ints that are not negative.
std::array<Value, 4> philox(Operand seed, Operand offset) {
  const std::source_location loc = seed.loc();
  const Trace::LocationScope scope(loc);
  const std::vector<Value> both = broadcast_all({cast(seed, u64_t), cast(offset, u64_t)}, "philox", loc);
  const std::vector<Value> words = both.empty() ? both : emit_all(OpCode::kPhilox, both, {}, loc);
  return {tracing::at(words, 0), tracing::at(words, 1), tracing::at(words, 2), tracing::at(words, 3)};
}

Value inline_asm(std::string_view text, std::string_view constraints, std::vector<Operand> args, ElementType type,
                 int pack, SourceLocation loc) {
  const std::vector<Value> values = broadcast_all(materialise_all(args), "inline_asm", loc);
  if (values.empty() && !args.empty()) return {};
  return emit(OpCode::kInlineAsm, values, {std::string(text), std::string(constraints), int64_t{pack}, type}, loc);
}

}  // namespace kiln::dsl::lang
