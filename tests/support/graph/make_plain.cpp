// Makers of what needs no more than shapes: make, elementwise, view, cat.
#include "graph/generator.h"
#include "kiln/graph/extents.h"

namespace kiln::random_graph {
namespace {

using enum TensorOp;

void make_from_nothing(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  switch (op) {
    case kConstant: {
      const ElementType element = gen.element(Kind::kAny);
      Shape shape;
      int64_t count = 1;
      for (int64_t left = random.below(3); left > 0; --left) {
        shape.emplace_back(random.between(0, 4));
        count *= *shape.back().as_constant();
      }
      std::vector<uint64_t> data;
      for (; count > 0; --count) {
        const auto number = static_cast<double>(element == ElementType::kI1 ? random.below(2) : random.below(7));
        data.push_back(dsl::bits_from_double(element, number));
      }
      gen.op(op, {}, {element, std::move(shape), std::move(data)});
      break;
    }
    case kFull:
      gen.full(gen.element(Kind::kAny), gen.shape(0, 3), static_cast<double>(random.below(2)));
      break;
    case kExtent:
      gen.op(op, {}, {gen.element(Kind::kNumbers), gen.extent()});
      break;
    case kIota: {
      Shape shape = gen.shape(1, 3);
      const int64_t axis = random.below(static_cast<int64_t>(shape.size()));
      gen.op(op, {}, {gen.element(Kind::kNumbers), std::move(shape), axis});
      break;
    }
    default:  // philox
      gen.op(op, {gen.value(ElementType::kU64, {}), gen.value(ElementType::kU64, {})}, {gen.shape(0, 3)});
  }
}

Kind takes(TensorOp op) {
  const graph::OpInfo& row = graph::info(op);
  if (row.has(graph::kMath) || row.has(graph::kComposite) || op == kFma) return Kind::kFloats;
  if (op == kMulhi || op == kShl || op == kShr) return Kind::kInts;
  if (op == kAnd || op == kOr || op == kXor || op == kNot) return Kind::kIntsAndBools;
  return op == kCmp || op == kStopGradient || op == kCast || op == kBitcast ? Kind::kAny : Kind::kNumbers;
}

ElementType of_width(Generator& gen, ElementType element) {
  for (;;) {
    const auto other = static_cast<ElementType>(gen.random.below(dsl::kElementTypeCount));
    if (dsl::info(other).bits == dsl::info(element).bits) return other;
  }
}

void make_elementwise(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  if (op == kSelect) {
    const ValueId a = gen.tensor({});
    const TensorType type = gen.type(a);
    const ValueId cond = gen.value(ElementType::kI1, type.shape);
    gen.op(op, {cond, a, gen.value(type)});
    return;
  }
  const ValueId first = gen.tensor({takes(op)});
  const TensorType type = gen.type(first);
  std::vector<ValueId> operands{first};
  while (operands.size() < graph::info(op).operands.size()) operands.push_back(gen.value(type));
  AttrList attrs;
  if (op == kCmp) attrs = {random.below(6)};
  if (op == kCast) attrs = {gen.element(Kind::kAny)};
  if (op == kBitcast) attrs = {of_width(gen, type.element)};
  if (op == kGelu) attrs = {random.below(2)};
  if (op == kLeakyRelu || op == kElu) attrs = {random.uniform()};
  if (op == kClamp) attrs = {-random.uniform(), random.uniform()};
  gen.op(op, std::move(operands), std::move(attrs));
}

void make_reshape(Generator& gen) {
  Random& random = gen.random;
  const ValueId x = gen.tensor({});
  Shape shape = gen.type(x).shape;
  switch (random.below(4)) {
    case 0:
      shape = {graph::element_count(shape)};
      break;
    case 1:  // neighbours become one
      if (shape.size() >= 2) {
        const int64_t at = random.below(static_cast<int64_t>(shape.size()) - 1);
        shape[static_cast<size_t>(at)] = shape[static_cast<size_t>(at)] * shape[static_cast<size_t>(at) + 1];
        shape.erase(shape.begin() + at + 1);
      }
      break;
    case 2:  // one becomes two
      for (size_t i = 0; i < shape.size(); ++i) {
        const auto half = graph::exact_quotient(gen.builder().graph().dims, shape[i], Expr(2));
        if (!half) continue;
        shape[i] = *half;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(i), Expr(2));
        break;
      }
      break;
    default:
      shape.insert(shape.begin() + random.below(static_cast<int64_t>(shape.size()) + 1), Expr(1));
  }
  gen.op(kReshape, {x}, {std::move(shape)});
}

void make_broadcast(Generator& gen) {
  Random& random = gen.random;
  const ValueId x = gen.tensor({.high_rank = 3});
  Shape shape = gen.type(x).shape;
  for (Expr& extent : shape) {
    if (extent.as_constant() == 1 && random.chance(70)) extent = gen.extent();
  }
  if (random.chance(50)) shape.insert(shape.begin(), gen.extent());
  if (!gen.small(shape)) shape = gen.type(x).shape;
  gen.op(kBroadcast, {x}, {std::move(shape)});
}

void make_slice(Generator& gen) {
  Random& random = gen.random;
  const ValueId x = gen.tensor({.low_rank = 1});
  Shape start, end;
  Ints step;
  for (const Expr& extent : gen.type(x).shape) {
    const int64_t least = gen.low(extent);
    const int64_t first = random.chance(50) ? 0 : random.between(0, least);
    start.emplace_back(first);
    end.push_back(random.chance(50) ? extent - Expr(random.between(0, least - first))
                                    : Expr(random.between(first, least)));
    step.push_back(random.chance(60) ? 1 : random.between(1, 3));
  }
  gen.op(kSlice, {x}, {std::move(start), std::move(end), std::move(step)});
}

void make_pad(Generator& gen) {
  Random& random = gen.random;
  const ValueId x = gen.tensor({.high_rank = 3});
  const TensorType type = gen.type(x);
  const ValueId value = gen.value(type.element, {});
  Shape low, high;
  Ints inner;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    low.emplace_back(random.below(3));
    high.push_back(random.chance(15) ? gen.extent() : Expr(random.below(2)));
    inner.push_back(random.chance(80) ? 0 : 1);
  }
  gen.op(kPad, {x, value}, {std::move(low), std::move(high), std::move(inner)});
}

void make_view(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  switch (op) {
    case kReshape:
      return make_reshape(gen);
    case kBroadcast:
      return make_broadcast(gen);
    case kSlice:
      return make_slice(gen);
    case kPad:
      return make_pad(gen);
    default: {
      const ValueId x = gen.tensor({});
      Ints axes;
      for (int64_t axis = 0; axis < gen.type(x).rank(); ++axis) {
        if (op == kPermute || random.chance(60))
          axes.insert(axes.begin() + random.below(static_cast<int64_t>(axes.size()) + 1), axis);
      }
      gen.op(op, {x}, {std::move(axes)});
    }
  }
}

}  // namespace

void make_plain(Generator& gen, TensorOp op) {
  switch (graph::info(op).family) {
    case graph::Family::kMake:
      return make_from_nothing(gen, op);
    case graph::Family::kElementwise:
      return make_elementwise(gen, op);
    case graph::Family::kView:
      return make_view(gen, op);
    default: {  // cat
      const ValueId first = gen.tensor({.low_rank = 1});
      TensorType type = gen.type(first);
      const int64_t axis = gen.random.below(type.rank());
      std::vector<ValueId> operands{first};
      for (int64_t left = gen.random.below(3); left > 0; --left) {
        if (gen.random.chance(50)) type.shape[static_cast<size_t>(axis)] = gen.extent();
        operands.push_back(gen.value(type));
      }
      gen.op(op, std::move(operands), {axis});
    }
  }
}

}  // namespace kiln::random_graph
