// The C++ side of traced control flow, and of variables.
#include <algorithm>

#include "trace/trace.h"

namespace kiln::dsl::lang {
namespace {

// A region that is open while an author's function runs. One that is left by an exception is forgotten.
class RegionScope {
 public:
  RegionScope(Trace& trace, Trace::RegionKind kind, const std::source_location& loc) : trace_(trace), loc_(loc) {
    trace_.open(kind);
  }
  ~RegionScope() {
    if (closed_) return;
    trace_.report(loc_, "an exception left a function that was being traced");
    trace_.abandon();
  }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  Trace::TracedRegion close() {
    closed_ = true;
    return trace_.close();
  }

 private:
  Trace& trace_;
  std::source_location loc_;
  bool closed_ = false;
};

// Where the condition of if_ or while_ is a number: 1 or 0, a Const when the config is known.
Value condition_value(Trace& trace, const Operand& condition, const std::string& what,
                      const std::source_location& loc) {
  if (condition.kind() == Operand::Kind::kInt) {
    return constant(Operand(Const(condition.expr()) != Const(0), loc), i1_t, loc);
  }
  const Value value = condition.value();
  if (condition.is_value() && !trace.usable(value, loc)) return {};
  if (condition.is_value() && value.type() == scalar_type(i1_t)) return value;
  report(loc, what + ": the condition must be a scalar i1" +
                  (condition.is_value() ? ", not " + type_text(value.type()) : "; compare with 0"));
  return {};
}

// What a branch gives: an operand may not be used after the branch any more.
struct BranchValues {
  Trace::TracedRegion region;
  std::vector<Operand> given;
  bool usable = true;
};

BranchValues trace_branch(Trace& trace, const tracing::Branch& function, const std::source_location& loc) {
  RegionScope scope(trace, Trace::RegionKind::kBranch, loc);
  BranchValues out;
  out.given = function();
  for (const Operand& operand : out.given) {
    if (operand.is_value() || !operand.present()) out.usable = trace.usable(operand.value(), loc) && out.usable;
  }
  out.region = scope.close();
  return out;
}

// The type that both branches can give; each converts to it.
std::optional<Type> branch_type(const Operand& a, const Operand& b, const std::source_location& loc) {
  std::vector<Type> types;
  for (const Operand& operand : {a, b}) {
    types.push_back(operand.is_value() ? operand.value().type() : scalar_type(ElementType::kI32));
  }
  auto shape = common_shape(types, "if_", loc);
  if (!shape) return std::nullopt;
  if (types[0].pointer && types[1].pointer && types[0].element == types[1].element) {
    return Type{types[0].element, true, *shape};
  }
  auto element = common_type({a, b}, "if_", loc);
  return element ? std::optional(tile_type(*element, *shape)) : std::nullopt;
}

Value converted(const Operand& operand, const Type& type, const std::source_location& loc) {
  Value value = operand.is_value() ? operand.value() : constant(operand, type.element, loc);
  if (value.valid() && value.element() != type.element) value = emit(OpCode::kCast, {value}, {type.element}, loc);
  return value.valid() ? broadcast_value(value, type.shape, "if_", loc) : Value();
}

// What a combining function gives, as scalars of the tiles' types. None after an error.
std::optional<std::vector<Value>> element_results(Trace& trace, const std::string& what,
                                                  const std::vector<Operand>& given, const std::vector<Value>& tiles,
                                                  const std::source_location& loc) {
  if (given.size() != tiles.size()) {
    report(loc, what + ": the function gives " + std::to_string(given.size()) + " values for " +
                    std::to_string(tiles.size()) + " tiles");
    return std::nullopt;
  }
  std::vector<Value> out;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Type wanted = scalar_type(tiles[i].element());
    out.push_back(as_value(given[i], wanted.element));
    if (!trace.usable(out.back(), loc)) return std::nullopt;
    if (out.back().type() == wanted) continue;
    report(loc, what + ": the function gives " + type_text(out.back().type()) + " for elements of " +
                    type_text(wanted) + "; cast its result or the tile");
    return std::nullopt;
  }
  return out;
}

}  // namespace

namespace tracing {

std::vector<Value> if_(const Operand& condition, const Branch& then, const Branch& otherwise) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  const std::source_location loc = condition.loc();
  const Value holds = condition_value(*trace, condition, "if_", loc);
  BranchValues a = trace_branch(*trace, then, loc), b = trace_branch(*trace, otherwise, loc);
  if (a.given.size() != b.given.size()) {
    report(loc, "if_: the first branch gives " + std::to_string(a.given.size()) + " values, the second " +
                    std::to_string(b.given.size()));
  }
  const size_t count = std::min(a.given.size(), b.given.size());
  std::vector<std::optional<Type>> types(count);
  bool fine = holds.valid() && a.usable && b.usable;
  for (size_t i = 0; i < count && fine; ++i) {
    types[i] = branch_type(a.given[i], b.given[i], loc);
    fine = types[i].has_value();
  }
  Trace::Branch branches[2];
  for (BranchValues* from : {&a, &b}) {
    Trace::Branch& to = branches[from == &b];
    trace->reopen(std::move(from->region));
    for (size_t i = 0; i < count && fine; ++i) {
      to.values.push_back(converted(from->given[i], *types[i], loc));
      fine = to.values.back().valid();
    }
    to.region = trace->close();
  }
  if (!fine) {
    for (Trace::Branch& branch : branches) branch.values.clear();
  }
  std::vector<Value> results = trace->add_if(holds, std::move(branches[0]), std::move(branches[1]), loc);
  results.resize(count);
  return results;
}

void while_(const std::function<Operand()>& condition, const std::function<void()>& body, SourceLocation loc) {
  Trace* trace = Trace::current();
  if (!trace) return;
  RegionScope asking(*trace, Trace::RegionKind::kCondition, loc);
  const Value goes_on = condition_value(*trace, condition(), "while_", loc);
  Trace::TracedRegion condition_region = asking.close();
  RegionScope running(*trace, Trace::RegionKind::kBody, loc);
  body();
  trace->add_while(std::move(condition_region), goes_on, running.close(), loc);
}

std::vector<Value> combine(Combination how, const Operands& xs, const Combine& function, SourceLocation loc) {
  Trace* trace = Trace::current();
  const std::string& what = info(how.code).name;
  const std::vector<Value> values = broadcast_all(materialise_all(xs), what, loc);
  if (!trace || values.empty()) return {};
  const auto axis = resolve_axis(how.axis, values[0].rank(), what, loc);
  std::vector<Value> sides[2];
  RegionScope scope(*trace, Trace::RegionKind::kCombine, loc);
  for (std::vector<Value>& side : sides) {
    for (const Value& value : values) side.push_back(trace->add_argument(scalar_type(value.element())));
  }
  std::optional<std::vector<Value>> yields = element_results(*trace, what, function(sides[0], sides[1]), values, loc);
  Trace::TracedRegion region = scope.close();
  if (!yields || !axis) return {};
  std::vector<Attr> attrs = {static_cast<int64_t>(ReduceKind::kCustom), *axis};
  if (how.code == OpCode::kScan) attrs.emplace_back(int64_t{how.reverse});
  return trace->add_combine(how.code, values, std::move(attrs), std::move(region), *yields, loc);
}

}  // namespace tracing

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
    trace->open(Trace::RegionKind::kLoop);
    index_ = trace->add_argument(bounds_[0].type());
    opened_ = true;
  }
  return Iterator(this);
}

Range::Iterator& Range::Iterator::operator++() {
  if (range_->opened_) {
    Trace& trace = *Trace::current();
    trace.add_for(range_->bounds_, range_->stages_, trace.close(), range_->loc_);
  }
  range_->state_ = State::kDone;
  return *this;
}

// A body that ran to its end has closed the loop already; `break` and `return` come here with the loop open. So does an
// exception of the author's, which ends the trace.
Range::~Range() {
  if (state_ != State::kRunning) return;
  report(loc_, "`break` or `return` left the body of this loop; the body is traced once and must run to its end");
  if (opened_) Trace::current()->abandon();
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
  slot_ = trace->add_slot(value, loc_);
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
