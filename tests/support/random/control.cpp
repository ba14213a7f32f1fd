// Generators: loops, branches and facts.
#include <algorithm>

#include "families.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Expr;
using dsl::Op;
using dsl::OpCode;
using dsl::Predicate;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

namespace {

struct Carried {
  Operands inits;
  std::vector<Type> types;
  std::vector<Fact> facts;

  void add(Maker& maker, ValueId init) {
    inits.push_back(init);
    types.push_back(maker.type(init));
    facts.push_back(carried_fact(types.back()));
  }
};

Carried any_carried(Maker& maker) {
  Carried out;
  for (size_t i = maker.pick(4); i > 0; --i) out.add(maker, maker.value(maker.element(), maker.shape(), Level::kValue));
  return out;
}

// For each carried value another that may follow it; often one that the body made.
void next_values(Maker& maker, const Carried& carried, Operands& out) {
  for (const Type& type : carried.types) out.push_back(maker.value(type.element, type.shape, Level::kValue));
}

// What a loop runs over, few times: small numbers, or some near an end of the type, by large steps too.
struct LoopNumbers {
  Wide start, end, step;
};

LoopNumbers loop_numbers(Maker& maker, ElementType element) {
  const Wide low = lowest_int(element), high = highest_int(element);
  const Wide most = std::min<Wide>(high / 4, INT64_MAX);
  const auto number = [&](size_t below) { return static_cast<Wide>(maker.pick(below)); };
  LoopNumbers out{number(5), 0, 1 + (maker.chance(6) ? number(static_cast<size_t>(most)) : number(3))};
  const Wide trips = number(4);
  if (maker.chance(4)) {
    out.start = maker.chance(3) ? low + number(3) : std::max(low, high - out.step * trips + number(4) - 1);
    out.start = std::min(out.start, high);
  }
  out.end = std::clamp(out.start + out.step * trips - number(2), low, high);
  return out;
}

int body_size(Maker& maker) { return 1 + static_cast<int>(maker.pick(5)); }

}  // namespace

bool make_for(Maker& maker, OpCode code) {
  if (maker.depth >= maker.options.max_depth) return false;
  Carried carried = any_carried(maker);
  const ElementType element = maker.int_element();
  const LoopNumbers numbers = loop_numbers(maker, element);
  const auto bound = [&](Wide number) {
    const uint64_t bits = dsl::bits_from_int(element, static_cast<int64_t>(number));
    return maker.chance(3) ? maker.kernel.params[maker.new_scalar(element, bits)].value : maker.literal(element, bits);
  };
  Op op{code, {bound(numbers.start), bound(numbers.end), bound(numbers.step)},
        {},   {Expr(static_cast<int64_t>(1 + maker.pick(4)))},
        {},   {}};
  op.operands.insert(op.operands.end(), carried.inits.begin(), carried.inits.end());
  if (!maker.is_allowed(op)) return false;
  std::vector<Type> args = {dsl::scalar_type(element)};
  args.insert(args.end(), carried.types.begin(), carried.types.end());
  Fact index;
  index.low = numbers.start;
  index.high = std::max(numbers.start, numbers.end - 1);
  std::vector<Fact> facts = {index};
  facts.insert(facts.end(), carried.facts.begin(), carried.facts.end());
  op.regions.push_back(maker.region(args, facts, [&](const Operands&) {
    maker.grow(body_size(maker));
    Operands out;
    next_values(maker, carried, out);
    if (carried.inits.empty() || maker.chance(4)) maker.store(maker.anything(Level::kValue));
    return out;
  }));
  return maker.emit_control(std::move(op), carried.types, carried.facts).has_value();
}

bool make_while(Maker& maker, OpCode code) {
  if (maker.depth >= maker.options.max_depth) return false;
  // The first carried value counts the trips; the others, and any condition, are free.
  Carried carried;
  carried.add(maker, maker.constant(static_cast<int64_t>(maker.pick(2)), ElementType::kI32));
  const Carried more = any_carried(maker);
  for (const ValueId init : more.inits) carried.add(maker, init);
  Op op{code, carried.inits, {}, {}, {}, {}};
  if (!maker.is_allowed(op)) return false;
  const auto limit = static_cast<int64_t>(maker.pick(4));
  op.regions.push_back(maker.region(carried.types, carried.facts, [&](const Operands& args) -> Operands {
    ValueId go = maker.base(OpCode::kCmp, {args[0], maker.constant(limit)}, {static_cast<int64_t>(Predicate::kLt)});
    if (maker.chance(3)) maker.grow(1);
    if (maker.chance(3)) go = maker.base(OpCode::kAnd, {go, maker.value(ElementType::kI1, {})}, {});
    return {go};
  }));
  op.regions.push_back(maker.region(carried.types, carried.facts, [&](const Operands& args) {
    maker.grow(body_size(maker));
    Operands out = {maker.base(OpCode::kAdd, {args[0], maker.constant(1)}, {})};
    next_values(maker, more, out);
    return out;
  }));
  return maker.emit_control(std::move(op), carried.types, carried.facts).has_value();
}

bool make_if(Maker& maker, OpCode code) {
  if (maker.depth >= maker.options.max_depth) return false;
  const ValueId condition = maker.value(ElementType::kI1, {});
  Op op{code, {condition}, {}, {}, {}, {}};
  if (!maker.is_allowed(op)) return false;
  std::vector<std::pair<ElementType, Shape>> wanted;
  for (size_t i = maker.pick(4); i > 0; --i) wanted.emplace_back(maker.element(), maker.shape());
  std::vector<Fact> facts;
  std::vector<Type> types;
  for (int branch = 0; branch < 2; ++branch) {
    op.regions.push_back(maker.region({}, {}, [&](const Operands&) {
      maker.grow(body_size(maker) - 1);
      Operands out;
      for (size_t i = 0; i < wanted.size(); ++i) {
        out.push_back(maker.value(wanted[i].first, wanted[i].second, Level::kNear));
        const Fact& fact = maker.fact(out.back());
        branch == 0 ? facts.push_back(fact) : void(facts[i] = join(facts[i], fact));
        if (branch == 0) types.push_back(maker.type(out.back()));
      }
      if (out.empty() || maker.chance(4)) maker.store(maker.anything(Level::kValue));
      return out;
    }));
  }
  return maker.emit_control(std::move(op), types, facts).has_value();
}

bool make_fact(Maker& maker, OpCode code) {
  switch (code) {
    case OpCode::kRequire: {
      const Expr extent = maker.extent();
      const Expr holds = Expr::apply(dsl::AtomKind::kEq, extent, Expr(maker.world.value(extent)));
      return maker.emit(code, {}, {holds, std::string("an extent \\ \"changed\"")}).has_value();
    }
    case OpCode::kAssert: {
      Shape shape = maker.shape();
      if (shape.empty()) shape = {Expr(1)};
      const size_t axis = maker.pick(shape.size());
      const ValueId limit = maker.splat(maker.constant(shape[axis], ElementType::kI32), shape);
      const ValueId holds =
          maker.base(OpCode::kCmp, {maker.along(shape, axis), limit}, {static_cast<int64_t>(Predicate::kLt)});
      return maker.emit(code, {holds}, {std::string("an index is too large")}).has_value();
    }
    case OpCode::kPrint: {
      Operands operands;
      for (size_t i = maker.pick(3); i > 0; --i) operands.push_back(maker.anything(Level::kNear));
      return maker.emit(code, operands, {std::string("values\n")}).has_value();
    }
    default: {
      if (!maker.options.facts) return false;
      // The truth about an index.
      const Shape shape = maker.shape();
      const ValueId number = shape.empty() ? maker.constant(48) : maker.along(shape, shape.size() - 1);
      const Fact& fact = maker.fact(number);
      const Expr multiple(shape.empty() ? int64_t{16} : int64_t{1});
      const Expr contiguous = shape.empty() ? Expr(1) : shape.back();
      const Expr low(static_cast<int64_t>(fact.low)), high(static_cast<int64_t>(fact.high));
      return maker.emit(code, {number}, {multiple, contiguous, low, high}).has_value();
    }
  }
}

}  // namespace kiln::random_kernel
