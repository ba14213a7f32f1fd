// Generators: reductions and scans, of a kind or with a region. Every region here is associative; few commute.
#include "families.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::OpCode;
using dsl::Predicate;
using dsl::ReduceKind;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

namespace {

// Ops on the scalars of a region; where the options do not allow one the whole region is given up.
struct Builder {
  Maker& maker;
  bool complete = true;

  ValueId operator()(OpCode code, Operands operands, Attrs attrs = {}) {
    const auto made = maker.emit(code, operands, std::move(attrs));
    complete = complete && made.has_value();
    return made.value_or(operands.back());
  }
};

struct Combination {
  std::vector<ElementType> types;
  Operands (*combine)(Builder& op, const Operands& args);  // args: the left elements, then the right
};

// (a, b) stands for x → a·x + b: left first, then right.
Operands compose_affine(Builder& op, const Operands& v) {
  const ValueId scaled = op(OpCode::kMul, {v[2], v[1]});
  return {op(OpCode::kMul, {v[0], v[2]}), op(OpCode::kAdd, {scaled, v[3]})};
}

Operands multiply_matrices(Builder& op, const Operands& v) {
  auto cell = [&](size_t row, size_t column) {
    const ValueId first = op(OpCode::kMul, {v[2 * row], v[4 + column]});
    const ValueId second = op(OpCode::kMul, {v[2 * row + 1], v[6 + column]});
    return op(OpCode::kAdd, {first, second});
  };
  return {cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)};
}

Operands take_left(Builder&, const Operands& v) { return {v[0]}; }
Operands take_right(Builder&, const Operands& v) { return {v[1]}; }
Operands exclusive_or(Builder& op, const Operands& v) { return {op(OpCode::kXor, {v[0], v[1]})}; }
Operands largest(Builder& op, const Operands& v) { return {op(OpCode::kMax, {v[0], v[1]})}; }

// Key and payload; the first of several largest keys.
Operands argmax(Builder& op, const Operands& v) {
  const ValueId right = op(OpCode::kCmp, {v[2], v[0]}, {static_cast<int64_t>(Predicate::kGt)});
  return {op(OpCode::kSelect, {right, v[2], v[0]}), op(OpCode::kSelect, {right, v[3], v[1]})};
}

// A flag begins a new segment.
Operands segmented_sum(Builder& op, const Operands& v) {
  const ValueId sum = op(OpCode::kAdd, {v[1], v[3]});
  return {op(OpCode::kOr, {v[0], v[2]}), op(OpCode::kSelect, {v[2], v[3], sum})};
}

Combination any_combination(Maker& maker) {
  const ElementType i = maker.int_element(), any = maker.element();
  switch (maker.pick(8)) {
    case 0:
      return {{i, i}, compose_affine};
    case 1:
      return {{i, i, i, i}, multiply_matrices};
    case 2:
      return {{i}, take_left};
    case 3:
      return {{i}, take_right};
    case 4:
      return {{maker.chance(2) ? ElementType::kI1 : i}, exclusive_or};
    case 5:
      return {{any == ElementType::kI1 ? i : any}, largest};
    case 6:
      return {{any == ElementType::kI1 ? i : any, i}, argmax};
    default:
      return {{ElementType::kI1, i}, segmented_sum};
  }
}

bool make_custom(Maker& maker, OpCode code, const Shape& shape, Attrs attrs) {
  const Combination combination = any_combination(maker);
  Operands operands;
  std::vector<Type> args;
  std::vector<Fact> facts;
  for (const ElementType element : combination.types) {
    operands.push_back(dsl::is_float(element) ? maker.tame(element, shape, Content::kTame)
                                              : maker.value(element, shape));
    args.push_back(dsl::scalar_type(element));
    facts.push_back(full_fact(args.back()));
  }
  const size_t count = args.size();
  for (size_t i = 0; i < count; ++i) {
    args.push_back(args[i]);
    facts.push_back(facts[i]);
  }
  Builder builder{maker};
  Region region =
      maker.region(args, facts, [&](const Operands& scalars) { return combination.combine(builder, scalars); });
  return builder.complete && maker.emit(code, operands, std::move(attrs), {std::move(region)}).has_value();
}

}  // namespace

bool make_combine(Maker& maker, OpCode code) {
  const bool is_scan = code == OpCode::kScan;
  Shape shape = maker.shape();
  if (shape.empty()) shape = {maker.extent()};
  const auto axis = static_cast<int64_t>(maker.pick(shape.size()));
  const int64_t reverse = int64_t(maker.pick(2));
  auto attrs = [&](ReduceKind kind) {
    Attrs out = {static_cast<int64_t>(kind), axis};
    if (is_scan) out.emplace_back(reverse);
    return out;
  };
  if (maker.chance(3)) return make_custom(maker, code, shape, attrs(ReduceKind::kCustom));
  auto kind = static_cast<ReduceKind>(maker.pick(static_cast<size_t>(ReduceKind::kCustom)));
  if (is_scan && (kind == ReduceKind::kArgmin || kind == ReduceKind::kArgmax)) kind = ReduceKind::kSum;
  const bool is_bits = kind == ReduceKind::kAnd || kind == ReduceKind::kOr || kind == ReduceKind::kXor;
  ElementType element = maker.element();
  if (is_bits) element = maker.chance(3) ? ElementType::kI1 : maker.int_element();
  if (!is_bits && element == ElementType::kI1) element = maker.int_element();
  const bool adds = kind == ReduceKind::kSum || kind == ReduceKind::kProd;
  const ValueId x = dsl::is_float(element) && adds
                        ? maker.tame(element, shape, maker.chance(2) ? Content::kTame : Content::kCounts)
                        : maker.value(element, shape);
  return maker.emit(code, {x}, attrs(kind)).has_value();
}

}  // namespace kiln::random_kernel
