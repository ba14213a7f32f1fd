#include "step_emitter.h"

#include "kiln/dsl/scalar_cast.h"

namespace kiln::planner {

using dsl::Atom;
using dsl::AtomKind;
using graph::atom_expr;
using lang::Value;

namespace {

Value i64_of(int64_t number) { return lang::full({}, number, ElementType::kI64); }

Value both(const Value& a, const Value& b) {
  if (!a.valid()) return b;
  if (!b.valid()) return a;
  return a & b;
}

}  // namespace

Value literal_value(ElementType element, uint64_t bits) {
  // A number that becomes f8 saturates; its bits may be an infinity.
  if (dsl::is_float(element) && dsl::info(element).bits == 8) {
    return lang::bitcast(literal_value(ElementType::kU8, bits), element);
  }
  if (dsl::is_float(element)) return lang::full({}, dsl::double_from_bits(element, bits), element);
  if (element == ElementType::kI1)
    return lang::cast(lang::full({}, (bits & 1) != 0 ? 1 : 0, ElementType::kI32), element);
  const int width = dsl::info(element).bits;
  if (dsl::info(element).is_signed) {
    const int shift = 64 - width;
    return lang::full({}, static_cast<int64_t>(bits << shift) >> shift, element);
  }
  return lang::full({}, width == 64 ? bits : bits & ((uint64_t{1} << width) - 1), element);
}

// --- numbers ---

bool StepEmitter::has_lanes(size_t axis) const {
  if (axes_[axis].lanes.valid()) return true;
  for (const BoundAxis& bound : nest_.bound) {
    if (bound.axis != axis) continue;
    const std::vector<bool> lanes = lanes_of(bound.step);
    return std::find(lanes.begin(), lanes.end(), true) != lanes.end();
  }
  return false;
}

bool StepEmitter::has_lanes(const Expr& expr) const {
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (nest_.space.mentions(expr, axis) && has_lanes(axis)) return true;
  }
  return false;
}

void StepEmitter::add_lanes(const Expr& expr, std::vector<bool>& out) const {
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (!nest_.space.mentions(expr, axis)) continue;
    if (axes_[axis].lanes.valid()) out[axis] = true;
    for (const BoundAxis& bound : nest_.bound) {
      if (bound.axis == axis) add_lanes(bound.step, out);
    }
  }
}

void StepEmitter::add_lanes(StepId id, std::vector<bool>& out) const {
  const Step& step = nest_.steps[id];
  add_lanes(step.offset, out);
  for (const Condition& condition : step.when) {
    add_lanes(condition.a, out);
    add_lanes(condition.b, out);
  }
  for (const StepId operand : step.operands) add_lanes(operand, out);
}

std::vector<bool> StepEmitter::lanes_of(const Expr& expr) const {
  std::vector<bool> out(axes_.size());
  add_lanes(expr, out);
  return out;
}

std::vector<bool> StepEmitter::lanes_of(StepId step) const {
  std::vector<bool> out(axes_.size());
  add_lanes(step, out);
  return out;
}

Value StepEmitter::mask_of(const std::vector<bool>& axes) const {
  Value out;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis]) out = both(out, axes_[axis].mask);
  }
  return out;
}

Value StepEmitter::atom(const Atom& atom) {
  if (const auto axis = nest_.space.axis_of(atom)) {
    const BoundTo& to = axes_[*axis];
    for (const BoundAxis& bound : nest_.bound) {
      if (bound.axis == *axis) return lang::cast(value(bound.step), ElementType::kI64);
    }
    if (!to.lanes.valid()) return to.start.valid() ? to.start : i64_of(0);
    const Value lanes = lang::cast(to.lanes, ElementType::kI64);
    return to.start.valid() ? to.start + lanes : lanes;
  }
  if (!atom.args) return arguments_.dims.at(atom.index);
  const Value a = number(atom.args->first), b = number(atom.args->second);
  switch (atom.kind) {
    case AtomKind::kDiv:
      return a / b;
    case AtomKind::kRem:
      return a % b;
    case AtomKind::kMin:
      return lang::min(a, b);
    case AtomKind::kMax:
      return lang::max(a, b);
    case AtomKind::kEq:
      return lang::cast(a == b, ElementType::kI64);
    case AtomKind::kNe:
      return lang::cast(a != b, ElementType::kI64);
    case AtomKind::kLt:
      return lang::cast(a < b, ElementType::kI64);
    default:
      return lang::cast(a <= b, ElementType::kI64);
  }
}

// The sum of products as it is written.
Value StepEmitter::any_number(const Expr& expr) {
  if (const auto constant = expr.as_constant()) return i64_of(*constant);
  Value sum;
  for (const dsl::Term& term : expr.terms()) {
    Value product;
    for (const Atom& each : term.atoms) {
      const Value factor = number(atom_expr(each));
      product = product.valid() ? product * factor : factor;
    }
    if (!product.valid()) {
      product = i64_of(term.coefficient);
    } else if (term.coefficient != 1) {
      product = product * i64_of(term.coefficient);
    }
    sum = sum.valid() ? sum + product : product;
  }
  return sum;
}

Value StepEmitter::number(const Expr& expr) {
  if (const auto known = numbers_.find(expr); known != numbers_.end()) return known->second;
  const bool is_atom =
      expr.terms().size() == 1 && expr.terms()[0].coefficient == 1 && expr.terms()[0].atoms.size() == 1;
  const Value out = is_atom ? atom(expr.terms()[0].atoms[0]) : any_number(expr);
  numbers_[expr] = out;
  return out;
}

// Scalars first, then the lanes of places that are no multiple of an axis, which may have fewer axes than the others:
// what is left are lanes beside one address.
Value StepEmitter::pointer(ValueId tensor, const Expr& offset) {
  Value out = arguments_.tensors.at(tensor);
  Expr rest = offset;
  Value lanes;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const BoundTo& to = axes_[axis];
    if (!to.lanes.valid() || !nest_.space.mentions(rest, axis)) continue;
    const auto part = linear_in(nest_.space, rest, axis);
    if (!part || has_lanes(part->coefficient)) continue;
    if (to.start.valid()) out = out + to.start * number(part->coefficient);
    Value each = lang::cast(to.lanes, ElementType::kI64);
    if (part->coefficient != Expr(1)) each = each * number(part->coefficient);
    lanes = lanes.valid() ? lanes + each : each;
    rest = part->rest;
  }
  Expr scalar, others;
  for (const dsl::Term& term : rest.terms()) {
    const Expr each = of_term(term);
    (has_lanes(each) ? others : scalar) = (has_lanes(each) ? others : scalar) + each;
  }
  if (scalar != Expr()) out = out + number(scalar);
  if (others != Expr()) out = out + number(others);
  return lanes.valid() ? out + lanes : out;
}

// --- steps ---

Value StepEmitter::value(StepId id) {
  if (const auto known = values_.find(id); known != values_.end()) return known->second;
  const Value out = computed(nest_.steps[id]);
  values_[id] = out;
  return out;
}

Value StepEmitter::computed(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kLoad:
      return loaded(step);
    case Step::Kind::kCompute: {
      std::vector<Value> operands;
      for (const StepId operand : step.operands) operands.push_back(value(operand));
      return emit_op(step.op, graph_.attr_lists[step.attrs], step.element, operands);
    }
    case Step::Kind::kIndex:
      return lang::cast(number(step.offset), step.element);
    case Step::Kind::kLiteral:
      return literal_value(step.element, step.bits);
    case Step::Kind::kChoose:
      return lang::where(holds(step.when), value(step.operands[0]), value(step.operands[1]));
    case Step::Kind::kPlace: {
      const Value place = lang::cast(value(step.operands[0]), ElementType::kI64);
      return lang::where(place < i64_of(0), place + number(step.offset), place);
    }
    case Step::Kind::kPhilox:
      return random_word(step);
    case Step::Kind::kAnchor:
      return anchors_.at(step.anchor);
  }
  return {};
}

Value StepEmitter::holds(const Predicate& when) {
  Value out;
  for (const Condition& condition : when) {
    const Value a = number(condition.a), b = number(condition.b);
    out = both(out, condition.kind == AtomKind::kEq ? a == b : condition.kind == AtomKind::kLt ? a < b : a <= b);
  }
  return out;
}

bool lies_along_rows(const IndexSpace& space, const Expr& offset, size_t rows, size_t columns) {
  const auto row = linear_in(space, offset, rows), column = linear_in(space, offset, columns);
  return row && column && row->coefficient == Expr(1) && column->coefficient != Expr(1) &&
         column->coefficient != Expr() && !space.mentions(column->coefficient, rows);
}

Value StepEmitter::transposed_load(const Value& where, const Value& mask) const {
  const auto turn = [](const Value& x) { return lang::permute(x, {1, 0}); };
  if (!mask.valid()) return turn(lang::load(turn(where)));
  return turn(lang::load(turn(where), {.mask = mask.rank() == 2 ? turn(mask) : mask}));
}

Value StepEmitter::loaded(const Step& step) {
  const Value where = pointer(step.tensor, step.offset);
  const Value mask = both(mask_of(lanes_of(step.offset)), holds(step.when));
  if (transposed_ && lies_along_rows(nest_.space, step.offset, transposed_->first, transposed_->second)) {
    return transposed_load(where, mask);
  }
  if (!mask.valid()) return lang::load(where);
  // A predicate may have lanes that the address lacks.
  bool is_wider = where.rank() < mask.rank();
  for (int axis = 0; axis < where.rank() && !is_wider; ++axis) {
    const auto at = static_cast<size_t>(axis);
    is_wider = where.type().shape[at] == Expr(1) && mask.type().shape[at] != Expr(1);
  }
  if (is_wider) {
    const Value nothing = lang::full({}, 0, ElementType::kI32);
    return lang::load(where + lang::where(mask, nothing, nothing), {.mask = mask});
  }
  return lang::load(where, {.mask = mask});
}

Value StepEmitter::random_word(const Step& step) {
  const Value place = number(step.offset);
  const Value counter = lang::cast(value(step.operands[1]), ElementType::kU64);
  const auto words = lang::philox(lang::cast(value(step.operands[0]), ElementType::kU64),
                                  counter + lang::cast(place / i64_of(4), ElementType::kU64));
  const Value word = place % i64_of(4);
  return lang::where(word == i64_of(0), words[0],
                     lang::where(word == i64_of(1), words[1], lang::where(word == i64_of(2), words[2], words[3])));
}

Value StepEmitter::value_or(StepId step, const Value& other) {
  const Value mask = mask_of(std::vector<bool>(axes_.size(), true));
  return mask.valid() ? lang::where(mask, value(step), other) : value(step);
}

void StepEmitter::store(ValueId tensor, const Expr& offset, StepId step) {
  const Value mask = mask_of(lanes_of(offset));
  lang::store(pointer(tensor, offset), value(step), {.mask = mask.valid() ? lang::Operand(mask) : lang::Operand()});
}

}  // namespace kiln::planner
