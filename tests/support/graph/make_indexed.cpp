// Makers of index, reduce, scan and order.
#include "graph/generator.h"

namespace kiln::random_graph {
namespace {

using enum TensorOp;

Ints some_axes(Generator& gen, int64_t rank) {
  Ints out;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (gen.random.chance(55)) out.insert(out.begin() + gen.random.below(static_cast<int64_t>(out.size()) + 1), axis);
  }
  return out;
}

// A way to combine what is put at one place that the elements allow.
int64_t put_kind(Generator& gen, ElementType element) { return element == ElementType::kI1 ? 0 : gen.random.below(5); }

void make_along(Generator& gen, TensorOp op) {
  const ValueId x = gen.tensor({.low_rank = 1, .some = true});
  const TensorType type = gen.type(x);
  const int64_t axis = gen.random.below(type.rank());
  Shape shape = type.shape;
  shape[static_cast<size_t>(axis)] = gen.extent();
  const ValueId index = gen.index(shape, gen.low(type.shape[static_cast<size_t>(axis)]), true);
  if (op == kGather) {
    gen.op(op, {x, index}, {axis});
  } else {
    gen.op(op, {x, index, gen.value(type.element, shape)}, {axis, put_kind(gen, type.element)});
  }
}

void make_points(Generator& gen, TensorOp op) {
  const ValueId x = gen.tensor({.low_rank = 1, .some = true});
  const TensorType type = gen.type(x);
  Ints axes = some_axes(gen, type.rank());
  if (axes.empty()) axes.push_back(gen.random.below(type.rank()));
  Shape points = gen.shape(0, 2);
  std::vector<ValueId> indices;
  for (const int64_t axis : axes)
    indices.push_back(gen.index(points, gen.low(type.shape[static_cast<size_t>(axis)]), true));
  Shape whole = points;
  for (int64_t axis = 0; axis < type.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) whole.push_back(type.shape[static_cast<size_t>(axis)]);
  }
  std::vector<ValueId> operands{x};
  if (op == kIndexPut) operands.push_back(gen.value(type.element, whole));
  operands.insert(operands.end(), indices.begin(), indices.end());
  AttrList attrs{std::move(axes)};
  if (op == kIndexPut) attrs.emplace_back(put_kind(gen, type.element));
  gen.op(op, std::move(operands), std::move(attrs));
}

void make_embedding(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  const ElementType element = gen.element(op == kEmbedding ? Kind::kAny : Kind::kFloats);
  const Expr rows = gen.extent(), columns = gen.extent();
  const ValueId table = gen.value(element, {rows, columns});
  if (op == kEmbedding) {
    gen.op(op, {table, gen.index(gen.shape(0, 2), gen.low(rows), false)});
    return;
  }
  const Expr count = gen.extent_from(3);
  const ValueId ids = gen.index({count}, gen.low(rows), false);
  const ValueId offsets = gen.op(kIota, {}, {ElementType::kI32, Shape{Expr(random.between(1, 3))}, int64_t{0}});
  const int64_t mode = random.below(3);
  const ValueId weights = mode == 0 ? gen.maybe(element, {count}) : graph::kNoValue;
  gen.op(op, {table, ids, offsets, weights}, {mode});
}

void make_index(Generator& gen, TensorOp op) {
  switch (op) {
    case kGather:
    case kScatter:
      return make_along(gen, op);
    case kIndex:
    case kIndexPut:
      return make_points(gen, op);
    case kOneHot: {
      const Expr classes = gen.extent();
      const ValueId ids = gen.index(gen.shape(0, 2), gen.low(classes), false);
      gen.op(op, {ids}, {classes, gen.element(Kind::kNumbers)});
      return;
    }
    default:
      make_embedding(gen, op);
  }
}

int64_t reduce_kind(Generator& gen, ElementType element) {
  if (element == ElementType::kI1) return gen.random.between(4, 6);
  return gen.random.below(dsl::is_float(element) ? 4 : 7);
}

void make_reduce(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  switch (op) {
    case kReduce: {
      const ValueId x = gen.tensor({});
      gen.op(op, {x}, {reduce_kind(gen, gen.type(x).element), some_axes(gen, gen.type(x).rank()), random.below(2)});
      return;
    }
    case kArgReduce: {
      const ValueId x = gen.tensor({.kind = Kind::kNumbers, .low_rank = 1, .some = true});
      gen.op(op, {x}, {random.below(2), random.below(gen.type(x).rank()), random.below(2)});
      return;
    }
    case kCrossEntropy: {
      const ValueId logits = gen.tensor({.kind = Kind::kFloats, .low_rank = 1, .some = true});
      Shape rows = gen.type(logits).shape;
      const int64_t classes = gen.low(rows.back());
      rows.pop_back();
      const int64_t ignored = random.chance(50) ? -100 : 0;
      gen.op(op, {logits, gen.index(rows, classes, false)},
             {random.below(3), ignored, random.chance(50) ? 0.0 : random.uniform()});
      return;
    }
    default: {
      const ValueId x = gen.tensor({.kind = Kind::kFloats});
      AttrList attrs{some_axes(gen, gen.type(x).rank())};
      if (op == kVariance) attrs.emplace_back(random.below(2));
      attrs.emplace_back(random.below(2));
      gen.op(op, {x}, std::move(attrs));
    }
  }
}

void make_order(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  if (op == kHistogram) {
    gen.op(op, {gen.tensor({.kind = Kind::kInts})}, {gen.extent()});
    return;
  }
  const ValueId x = gen.tensor({.kind = Kind::kNumbers, .low_rank = 1});
  const int64_t axis = random.below(gen.type(x).rank());
  if (op == kSort) {
    gen.op(op, {x}, {axis, random.below(2)});
    return;
  }
  const Expr extent = gen.type(x).shape[static_cast<size_t>(axis)];
  const Expr k = random.chance(30) ? extent : Expr(random.between(0, gen.low(extent)));
  gen.op(op, {x}, {k, axis, random.below(2)});
}

}  // namespace

void make_indexed(Generator& gen, TensorOp op) {
  switch (graph::info(op).family) {
    case graph::Family::kIndex:
      return make_index(gen, op);
    case graph::Family::kReduce:
      return make_reduce(gen, op);
    case graph::Family::kOrder:
      return make_order(gen, op);
    default: {  // scan
      const ValueId x = gen.tensor({.low_rank = 1});
      gen.op(op, {x},
             {reduce_kind(gen, gen.type(x).element), gen.random.below(gen.type(x).rank()), gen.random.below(2),
              gen.random.below(2)});
    }
  }
}

}  // namespace kiln::random_graph
