// range() and Var: the C++ side of traced loops and of variables.
#include "trace.h"

namespace kiln::dsl::lang {

Range::Range(std::vector<Operand> bounds, SourceLocation loc) : loc_(loc) {
  const Trace::LocationScope scope(loc);
  const Operand& step = bounds[2];
  if (step.kind() == Operand::Kind::kInt && step.expr().as_constant().value_or(1) < 1) {
    report(loc, "range: the step must be 1 or more, not " + expr_text(step.expr()));
    return;
  }
  bounds_ = promote(bounds, "range");
  for (const Value& bound : bounds_) {
    if (bound.type().is_scalar() && is_int(bound.element()) && bound.element() != ElementType::kI1) continue;
    report(loc, "range: start, end and step must be scalar ints, not " + type_text(bound.type()));
    bounds_.clear();
    return;
  }
}

Range::Range(Range&& other) noexcept
    : bounds_(std::move(other.bounds_)), stages_(std::move(other.stages_)), loc_(other.loc_) {}

Range Range::stages(Const count) && {
  stages_ = count.expr();
  if (stages_.as_constant().value_or(1) < 1) {
    report(loc_, "range: stages must be 1 or more, not " + expr_text(stages_));
    stages_ = Expr(1);
  }
  return std::move(*this);
}

Range::Iterator Range::begin() {
  // A loop with wrong bounds still runs its body once: what is wrong inside is worth hearing too.
  state_ = State::kRunning;
  if (Trace* trace = Trace::current(); trace && !bounds_.empty()) {
    index_ = trace->open_loop(bounds_, stages_, loc_);
    opened_ = true;
  }
  return Iterator(this);
}

Range::Iterator& Range::Iterator::operator++() {
  if (range_->opened_) Trace::current()->close_loop();
  range_->state_ = State::kDone;
  return *this;
}

// A body that ran to its end has closed the loop already; `break` and `return` come here with the loop open. So does an
// exception of the author's, which ends the trace.
Range::~Range() {
  if (state_ != State::kRunning) return;
  report(loc_, "`break` or `return` left the body of this loop; the body is traced once and must run to its end");
  if (opened_) Trace::current()->abandon_loop();
}

Range range(Operand start, Operand end, Operand step, SourceLocation loc) {
  return Range({std::move(start), std::move(end), std::move(step)}, loc);
}
Range range(Operand start, Operand end, SourceLocation loc) { return range(std::move(start), std::move(end), 1, loc); }
Range range(Operand end, SourceLocation loc) { return range(0, std::move(end), 1, loc); }

Var::Var(const Operand& init, Init) : loc_(init.loc()) {
  Trace* trace = Trace::current();
  if (!trace) return;
  Value value = materialise(init);
  if (!trace->usable(value, loc_)) value = Value();
  slot_ = trace->add_slot(value);
  trace_ = trace->serial();
}

Value Var::read() const {
  Trace* trace = Trace::current();
  if (!trace || trace_ == 0) return {};
  if (trace->serial() != trace_) {
    trace->report(loc_, "a variable of another kernel is used in this one");
    return {};
  }
  return trace->read_slot(slot_);
}

Var& Var::operator=(Operand value) {
  const Value before = read();
  if (!before.valid()) return *this;
  Value after = value.value();
  if (!value.is_value()) {
    after =
        broadcast_value(constant(value, before.element(), value.loc()), before.type().shape, "assignment", value.loc());
  }
  Trace::current()->write_slot(slot_, after, value.loc());
  return *this;
}

Var& Var::operator=(Var& other) { return *this = Operand(other.read(), loc_); }

Var& Var::operator+=(Operand value) { return *this = Operand(Operand(*this, value.loc()) + value, value.loc()); }
Var& Var::operator-=(Operand value) { return *this = Operand(Operand(*this, value.loc()) - value, value.loc()); }
Var& Var::operator*=(Operand value) { return *this = Operand(Operand(*this, value.loc()) * value, value.loc()); }
Var& Var::operator/=(Operand value) { return *this = Operand(Operand(*this, value.loc()) / value, value.loc()); }
Var& Var::operator%=(Operand value) { return *this = Operand(Operand(*this, value.loc()) % value, value.loc()); }
Var& Var::operator&=(Operand value) { return *this = Operand(Operand(*this, value.loc()) & value, value.loc()); }
Var& Var::operator|=(Operand value) { return *this = Operand(Operand(*this, value.loc()) | value, value.loc()); }
Var& Var::operator^=(Operand value) { return *this = Operand(Operand(*this, value.loc()) ^ value, value.loc()); }

}  // namespace kiln::dsl::lang
