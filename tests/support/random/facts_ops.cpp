// Facts: every op of the table. No default: a new op says here what of its result is exact.
#include <algorithm>

#include "random/facts_rules.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::OpCode;

namespace {

Outcome int_range(Wide low, Wide high) {
  Fact out;
  out.low = low;
  out.high = high;
  return fine(out);
}

Outcome joined(const Rule& rule, size_t first) {
  Fact out = rule.in[first];
  for (size_t i = first + 1; i < rule.in.size(); ++i) {
    if (rule.type(first).pointer && rule.in[i].root != out.root) return open("a pointer into one of two buffers");
    out = join(out, rule.in[i]);
  }
  return fine(out);
}

Outcome constant(const Rule& rule) {
  const auto type = std::get<ElementType>(rule.op.attrs[1]);
  if (const auto* literal = std::get_if<dsl::Literal>(&rule.op.attrs[0]))
    return fine(fact_of_bits(type, literal->bits));
  return fine(fact_of_bits(type, dsl::bits_from_int(type, rule.expr(0))));
}

Outcome compare(const Rule& rule) {
  if (rule.worst() == Level::kNear) return open("a comparison of inexact values");
  return fine(any_int(ElementType::kI1, false));
}

Outcome ordered(const Rule& rule) {
  if (rule.in[0].level == Level::kNear) return open("an order of inexact values");
  Fact keys = rule.in[0];
  if (rule.of_floats()) keys.level = std::max(keys.level, Level::kValue);
  if (rule.op.code == OpCode::kTopk) {
    Fact index;
    index.high = rule.extent(0, static_cast<size_t>(rule.number(1))) - 1;
    return {"", {keys, index}};
  }
  Outcome out{"", {keys}};
  if (rule.in.size() > 1) out.results.push_back(rule.in[1]);
  return out;
}

}  // namespace

Outcome memory_rule(const Rule& rule) {
  const size_t root = rule.in[0].root;
  const ElementType element = rule.element(0);
  auto stored = [&](size_t operand) { return within(rule.in[operand], rule.world.storable_to(root)); };
  for (size_t i = 1; i < rule.in.size(); ++i) {
    const bool is_number = rule.op.code != OpCode::kStore && rule.op.code != OpCode::kLoad &&
                           rule.op.code != OpCode::kAtomicRmw && rule.op.code != OpCode::kAtomicCas &&
                           !(i == 1 && (rule.op.code == OpCode::kStoreTile || rule.op.code == OpCode::kReduceTile));
    if (is_number && rule.in[i].may_wrap) return open("an index that may have wrapped");
  }
  Fact out = rule.in[0];
  switch (rule.op.code) {
    case OpCode::kAddptr:
      return fine(out);
    case OpCode::kDescriptor:
      out.nan_fill = rule.number(1) == 1;
      return fine(out);
    case OpCode::kLoad:
      out = rule.world.loaded_from(root);
      if (rule.in.size() > 1) out = join(out, rule.in.size() > 2 ? rule.in[2] : fact_of_bits(element, 0));
      return fine(out);
    case OpCode::kLoadTile:
    case OpCode::kGatherRows:
      out = join(rule.world.loaded_from(root), fact_of_bits(element, 0));
      if (rule.in[0].nan_fill) out = join(out, any_float(Level::kValue));
      return fine(out);
    case OpCode::kStore:
    case OpCode::kStoreTile:
      return stored(1) ? Outcome{} : open("a store of inexact values into a buffer that is read");
    case OpCode::kAtomicCas:
      if (dsl::is_float(element)) return open("a comparison of the bits of floats");
      return fine(rule.world.loaded_from(root));
    default: {  // atomic_rmw, reduce_tile
      const auto kind = static_cast<dsl::AtomicKind>(rule.number(0));
      const bool orders = kind == dsl::AtomicKind::kMin || kind == dsl::AtomicKind::kMax;
      if (dsl::is_float(element) && orders) return open("an order of memory that may hold NaN");
      if (!stored(1)) return open("an atomic of inexact values");
      if (rule.op.code == OpCode::kReduceTile) return {};
      return fine(rule.world.loaded_from(root));
    }
  }
}

Outcome facts_of(const World& world, const dsl::Op& op, const std::vector<Fact>& operands) {
  const Rule rule{world, op, operands};
  switch (op.code) {
    case OpCode::kProgramId:
      return int_range(0, world.grid[static_cast<size_t>(rule.number(0))] - 1);
    case OpCode::kNumPrograms:
      return int_range(world.grid[static_cast<size_t>(rule.number(0))],
                       world.grid[static_cast<size_t>(rule.number(0))]);
    case OpCode::kConstant:
      return constant(rule);
    case OpCode::kArange:
      return int_range(rule.expr(0), rule.expr(1) - 1);
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kReshape:
    case OpCode::kPermute:
    case OpCode::kSlice:
      return fine(operands[0]);
    case OpCode::kSplit:
      return {"", {operands[0], operands[0]}};
    case OpCode::kJoin:
    case OpCode::kCat:
      return joined(rule, 0);
    case OpCode::kSelect:
      return joined(rule, 1);
    case OpCode::kGather:
      return operands[1].may_wrap ? open("an index that may have wrapped") : fine(operands[0]);
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kRem:
    case OpCode::kMin:
    case OpCode::kMax:
    case OpCode::kNeg:
    case OpCode::kAbs:
    case OpCode::kFma:
    case OpCode::kMulhi:
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
    case OpCode::kShl:
    case OpCode::kShr:
      return rule.of_floats() ? float_rule(rule) : int_rule(rule);
    case OpCode::kCmp:
      return compare(rule);
    case OpCode::kMath:
      return math_rule(rule);
    case OpCode::kCast:
    case OpCode::kBitcast:
      return cast_rule(rule);
    case OpCode::kAddptr:
    case OpCode::kLoad:
    case OpCode::kStore:
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
    case OpCode::kDescriptor:
    case OpCode::kLoadTile:
    case OpCode::kStoreTile:
    case OpCode::kReduceTile:
    case OpCode::kGatherRows:
      return memory_rule(rule);
    case OpCode::kDot:
    case OpCode::kDotScaled:
      return dot_rule(rule);
    case OpCode::kReduce:
    case OpCode::kScan:
      return combine_rule(rule);
    case OpCode::kSort:
    case OpCode::kTopk:
      return ordered(rule);
    case OpCode::kHistogram:
      return int_range(0, world.count(rule.type(0)));
    case OpCode::kPhilox:
      return {"", std::vector<Fact>(4, any_int(ElementType::kU32, false))};
    case OpCode::kAssume:
    case OpCode::kRequire:
    case OpCode::kAssert:
    case OpCode::kPrint:
    case OpCode::kYield:
      return {};
    case OpCode::kFor:
    case OpCode::kWhile:
    case OpCode::kIf:
      return open("an op with regions");
    case OpCode::kInlineAsm:
      return open("assembly");
  }
  return open("an op outside the table");
}

}  // namespace kiln::random_kernel
