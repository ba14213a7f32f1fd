// What launchers and instantiation must know, and what authors say and ask of a run: the grid, facts, checks, prints.
#include "trace/trace.h"

namespace kiln::dsl::lang {

void grid(Operand x, Operand y, Operand z, SourceLocation loc) {
  Trace* trace = Trace::current();
  if (!trace) return;
  if (trace->has_grid()) return trace->report(loc, "grid: the kernel has a grid already");
  const Operand* axes[] = {&x, &y, &z};
  std::array<Expr, 3> extents = {Expr(1), Expr(1), Expr(1)};
  for (size_t i = 0; i < 3; ++i) {
    const Operand& axis = *axes[i];
    if (!axis.present()) continue;
    std::optional<Expr> extent;
    if (axis.is_value()) {
      if (!trace->usable(axis.value(), loc)) return;
      extent = trace->fact(axis.value()).launcher;
    } else if (axis.kind() == Operand::Kind::kInt) {
      extent = axis.expr();
    }
    const std::string name(1, "xyz"[i]);
    if (!extent) {
      return trace->report(loc,
                           "grid: " + name +
                               " must be an integer expression over scalar parameters and Consts "
                               "(+ - * / % min max cdiv cast): the launcher computes it without running the kernel");
    }
    if (extent->as_constant().value_or(1) < 1) {
      return trace->report(loc, "grid: " + name + " is " + expr_text(*extent) + "; an extent is 1 or more");
    }
    extents[i] = *extent;
  }
  trace->set_grid(extents);
}

void assume(Operand x, AssumeOptions options) {
  emit(OpCode::kAssume, {materialise(x)},
       {options.multiple_of.expr(), options.contiguous.expr(), options.low.expr(), options.high.expr()}, x.loc());
}

void assume_multiple(Operand x, Const n) { assume(std::move(x), {.multiple_of = n}); }

void require(Const condition, std::string_view message, SourceLocation loc) {
  emit(OpCode::kRequire, {}, {condition.expr(), std::string(message)}, loc);
}

void require(const Value& condition, std::string_view message, SourceLocation loc) {
  Trace* trace = Trace::current();
  if (!trace || !trace->usable(condition, loc)) return;
  const std::optional<Expr>& known = trace->fact(condition).launcher;
  if (!known) {
    return trace->report(
        loc,
        "require: the condition must be an integer expression over scalar parameters and Consts (+ - * / "
        "% min max cdiv cast, comparisons, & and |), which launches know before they run the kernel; "
        "check() looks at what the kernel computes");
  }
  trace->add_constraint({*known, std::string(message)});
}

void check(Operand condition, std::string_view message) {
  const Value value = condition.is_value() ? materialise(condition) : as_value(condition, i1_t);
  emit(OpCode::kAssert, {value}, {std::string(message)}, condition.loc());
}

void print(std::string_view message, std::vector<Operand> values, SourceLocation loc) {
  const std::vector<Value> shown = materialise_all(values);
  if (shown.size() == values.size()) emit(OpCode::kPrint, shown, {std::string(message)}, loc);
}

}  // namespace kiln::dsl::lang
