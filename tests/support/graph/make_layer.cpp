// Makers of products, norms, optimiser steps, quantisation.
#include "graph/generator.h"
#include "graph/make_windows.h"

namespace kiln::random_graph {
namespace {

using enum TensorOp;
using graph::kNoValue;

void make_dot(Generator& gen) {
  Random& random = gen.random;
  const ElementType element = gen.element(Kind::kNumbers);
  Shape a, b;
  Ints axes[4];  // batch of a and b, contracted of a and b
  const auto add = [&](Shape& shape, const Expr& extent) {
    shape.push_back(extent);
    return static_cast<int64_t>(shape.size()) - 1;
  };
  const auto add_both = [&](int pair) {
    const Expr extent = gen.extent();
    axes[pair].push_back(add(a, extent));
    axes[pair + 1].push_back(add(b, extent));
  };
  if (random.chance(40)) add_both(0);
  if (random.chance(60)) add(a, gen.extent());
  for (int64_t left = random.below(3); left > 0; --left) add_both(2);
  if (random.chance(60)) add(b, gen.extent());
  const bool is_float = dsl::is_float(element);
  const ElementType type = random.chance(70) ? element : gen.element(is_float ? Kind::kFloats : Kind::kInts);
  const ValueId x = gen.value(element, a), y = gen.value(element, b);
  gen.op(kDot, {x, y}, {axes[0], axes[1], axes[2], axes[3], type, random.below(4)});
}

void make_attention(Generator& gen) {
  Random& random = gen.random;
  const ElementType element = gen.element(Kind::kFloats);
  const int64_t groups = random.between(1, 2), heads = groups * random.between(1, 2);
  const Expr batch = gen.extent(), places = gen.extent(), keys = random.chance(50) ? places : gen.extent();
  const Expr depth(random.between(1, 4)), width(random.between(1, 4));
  const ValueId q = gen.value(element, {batch, Expr(heads), places, depth});
  const ValueId k = gen.value(element, {batch, Expr(groups), keys, depth});
  const ValueId v = gen.value(element, {batch, Expr(groups), keys, width});
  ValueId mask = kNoValue;
  if (random.chance(50)) {
    Shape shape{batch, Expr(heads), places, keys};
    for (Expr& extent : shape) {
      if (random.chance(30)) extent = Expr(1);
    }
    shape.erase(shape.begin(), shape.begin() + random.below(3));
    mask = gen.value(random.chance(50) ? ElementType::kI1 : element, std::move(shape));
  }
  gen.op(kAttention, {q, k, v, mask}, {random.below(2), random.below(3), random.chance(70) ? 0.0 : random.uniform()});
}

void make_paged_attention(Generator& gen) {
  Random& random = gen.random;
  const ElementType element = gen.element(Kind::kFloats);
  const int64_t groups = random.between(1, 2), heads = groups * random.between(1, 2), pages = random.between(1, 3);
  const int64_t slots = random.between(1, 3), listed = random.between(1, 3);
  const Expr batch = gen.extent(), depth(random.between(1, 4)), width(random.between(1, 4));
  const ValueId q = gen.value(element, {batch, Expr(heads), depth});
  const ValueId k = gen.value(element, {Expr(pages), Expr(groups), Expr(slots), depth});
  const ValueId v = gen.value(element, {Expr(pages), Expr(groups), Expr(slots), width});
  const ValueId table = gen.index({batch, Expr(listed)}, pages, false);
  const ValueId lengths = gen.index({batch}, listed * slots + 1, false);
  gen.op(kPagedAttention, {q, k, v, table, lengths}, {random.chance(70) ? 0.0 : random.uniform()});
}

void make_contract(Generator& gen, TensorOp op) {
  switch (op) {
    case kDot:
      return make_dot(gen);
    case kAttention:
      return make_attention(gen);
    case kPagedAttention:
      return make_paged_attention(gen);
    case kLinear: {
      const ValueId x = gen.tensor({.kind = Kind::kNumbers, .low_rank = 1, .high_rank = 3});
      const TensorType type = gen.type(x);
      const Expr out = gen.extent();
      const ValueId w = gen.value(type.element, {out, type.shape.back()});
      gen.op(op, {x, w, gen.maybe(type.element, {out})});
      return;
    }
    default: {  // interaction
      const ElementType element = gen.element(Kind::kFloats);
      const Expr batch = gen.extent(), depth = gen.extent();
      const ValueId dense = gen.value(element, {batch, depth});
      const ValueId features = gen.value(element, {batch, Expr(gen.random.between(0, 3)), depth});
      gen.op(op, {dense, features}, {gen.random.below(2)});
    }
  }
}

// x [N, C, …] with as many channels as groups divide.
ValueId with_channels(Generator& gen, int64_t channels) {
  Shape shape = gen.shape(0, 2);
  shape.insert(shape.begin(), {gen.extent(), Expr(channels)});
  return gen.value(gen.element(Kind::kFloats), std::move(shape));
}

void make_channel_norm(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  const int64_t groups = random.between(1, 2);
  const ValueId x = with_channels(gen, groups * random.between(1, 2));
  const TensorType type = gen.type(x);
  const Shape channels{type.shape[1]};
  const auto parameter = [&] { return gen.maybe(gen.element(Kind::kFloats), channels); };
  if (op == kGroupNorm) {
    const ValueId weight = parameter(), bias = parameter();
    gen.op(op, {x, weight, bias}, {groups, 1e-5});
    return;
  }
  const ValueId mean = gen.value(gen.element(Kind::kFloats), channels);
  const ValueId variance = gen.not_negative({gen.element(Kind::kFloats), channels});
  const ValueId weight = parameter(), bias = parameter();
  gen.op(op, {x, mean, variance, weight, bias});
}

void make_row_norm(Generator& gen, TensorOp op) {
  const ValueId x = gen.tensor({.kind = Kind::kFloats, .low_rank = 1});
  const TensorType type = gen.type(x);
  const int64_t axes = gen.random.between(1, std::min(2, type.rank()));
  const Shape row(type.shape.end() - axes, type.shape.end());
  std::vector<ValueId> operands{x};
  while (operands.size() < graph::info(op).operands.size()) {
    operands.push_back(gen.maybe(gen.element(Kind::kFloats), row));
  }
  gen.op(op, std::move(operands), {axes});
}

void make_quantise(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  const ValueId x = gen.tensor({.kind = op == kQuantise ? Kind::kFloats : Kind::kInts});
  const TensorType type = gen.type(x);
  const ElementType to = gen.element(op == kQuantise ? Kind::kInts : Kind::kFloats);
  const ElementType floats = op == kQuantise ? type.element : to, ints = op == kQuantise ? to : type.element;
  const int64_t axis = type.rank() > 0 && random.chance(50) ? random.below(type.rank()) : -1;
  const Shape shape = axis < 0 ? Shape{} : Shape{type.shape[static_cast<size_t>(axis)]};
  const ValueId scale = gen.value(floats, shape);
  gen.op(op, {x, scale, gen.maybe(ints, shape)}, {to, axis});
}

void make_rope(Generator& gen) {
  const ElementType element = gen.element(Kind::kFloats);
  const Expr places = gen.extent(), half = gen.extent();
  Shape shape = gen.shape(0, 2);
  shape.push_back(places);
  shape.push_back(half * Expr(2));
  const ValueId x = gen.value(element, std::move(shape));
  const ValueId cos = gen.value(element, {places, half}), sin = gen.value(element, {places, half});
  gen.op(kRope, {x, cos, sin}, {gen.random.below(2)});
}

void make_norm(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  switch (op) {
    case kSoftmax:
    case kLogSoftmax: {
      const ValueId x = gen.tensor({.kind = Kind::kFloats, .low_rank = 1});
      gen.op(op, {x}, {random.below(gen.type(x).rank())});
      return;
    }
    case kLayerNorm:
    case kRmsNorm:
      return make_row_norm(gen, op);
    case kGroupNorm:
    case kBatchNorm:
    case kBatchNormTraining:
      return make_channel_norm(gen, op);
    case kRope:
      return make_rope(gen);
    case kTriangle: {
      const ValueId x = gen.tensor({.low_rank = 2});
      gen.op(op, {x}, {random.between(-2, 2), random.below(2)});
      return;
    }
    case kDropout: {
      const ValueId x = gen.tensor({.kind = Kind::kFloats});
      const ValueId seed = gen.value(ElementType::kU64, {}), offset = gen.value(ElementType::kU64, {});
      gen.op(op, {x, seed, offset}, {random.uniform() * 0.9});
      return;
    }
    default:
      make_quantise(gen, op);
  }
}

void make_step(Generator& gen, TensorOp op) {
  const ValueId param = gen.tensor({.kind = Kind::kFloats});
  const Shape shape = gen.type(param).shape;
  std::vector<ValueId> operands{param};
  for (size_t i = 1; i < graph::info(op).operands.size(); ++i) {
    const std::string& name = graph::info(op).operands[i].name;
    const ElementType element = gen.random.chance(60) ? gen.type(param).element : gen.element(Kind::kFloats);
    if (name == "step") {
      operands.push_back(gen.full(element, {}, static_cast<double>(gen.random.between(1, 9))));
    } else if (name == "lr") {
      operands.push_back(gen.value(element, {}));
    } else if (name == "v" || name == "sum") {
      operands.push_back(gen.not_negative({element, shape}));
    } else {
      operands.push_back(gen.value(element, shape));
    }
  }
  gen.op(op, std::move(operands));
}

}  // namespace

void make_layer(Generator& gen, TensorOp op) {
  switch (graph::info(op).family) {
    case graph::Family::kContract:
      return make_contract(gen, op);
    case graph::Family::kNorm:
      return make_norm(gen, op);
    case graph::Family::kOptimiser:
      return make_step(gen, op);
    default:
      make_windows(gen, op);
  }
}

}  // namespace kiln::random_graph
