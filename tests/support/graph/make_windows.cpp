#include "graph/make_windows.h"

#include "kiln/graph/infer.h"

namespace kiln::random_graph {
namespace {

using enum TensorOp;

// Windows by spatial axis that fit at the least extent.
struct Slides {
  Ints size, strides, low, high, dilation;
};

Slides slides(Generator& gen, std::span<const Expr> extents, bool dilates, bool crops) {
  Random& random = gen.random;
  Slides out;
  for (const Expr& extent : extents) {
    int64_t low = random.below(2), high = random.below(2);
    const int64_t least = gen.low(extent);
    if (crops && least >= 3 && random.chance(15)) low = -1;
    const int64_t room = least + low + high;
    const int64_t size = random.between(1, std::min<int64_t>(3, room));
    const bool spreads = dilates && (size - 1) * 2 + 1 <= room;
    out.size.push_back(size);
    out.strides.push_back(random.between(1, 2));
    out.low.push_back(low);
    out.high.push_back(high);
    out.dilation.push_back(spreads ? random.between(1, 2) : 1);
  }
  return out;
}

// What the rules say of one result.
TensorType inferred(Generator& gen, TensorOp op, const std::vector<TensorType>& operands, const AttrList& attrs) {
  std::vector<const TensorType*> pointers;
  for (const TensorType& each : operands) pointers.push_back(&each);
  auto types = graph::infer_types(gen.builder().graph(), op, pointers, attrs);
  if (!types) throw Fault(types.error().message);
  return types->front();
}

void make_conv(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  const ElementType element = gen.element(op == kConvBias ? Kind::kFloats : Kind::kNumbers);
  const int64_t groups = random.between(1, 2), channels = random.between(1, 2), filters = groups * random.between(1, 2);
  Shape spatial;
  for (int64_t left = random.between(1, 2); left > 0; --left) spatial.push_back(gen.extent_from(random.between(1, 3)));
  TensorType x{element, {gen.extent(), Expr(groups * channels)}}, w{element, {Expr(filters), Expr(channels)}};
  x.shape.insert(x.shape.end(), spatial.begin(), spatial.end());
  const Slides s = slides(gen, spatial, true, true);
  Shape window;
  for (const int64_t size : s.size) window.emplace_back(size);
  w.shape.insert(w.shape.end(), window.begin(), window.end());
  const AttrList forward{s.strides, s.low, s.high, s.dilation, groups};
  AttrList back = forward;
  if (op == kConv) {
    const ValueId input = gen.value(x), weight = gen.value(w);
    gen.op(op, {input, weight}, forward);
  } else if (op == kConvBias) {
    const ValueId input = gen.value(x), weight = gen.value(w), bias = gen.value(element, {Expr(filters)});
    gen.op(op, {input, weight, bias}, forward);
  } else {
    const ValueId g = gen.value(inferred(gen, kConv, {x, w}, forward));
    const bool to_input = op == kConvInput;
    back.insert(back.begin(), to_input ? spatial : window);
    const ValueId other = gen.value(to_input ? w : x);
    gen.op(op, to_input ? std::vector{g, other} : std::vector{other, g}, std::move(back));
  }
}

void make_window(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  const ValueId x = gen.tensor({.kind = Kind::kNumbers, .low_rank = 1, .high_rank = 3, .some = true});
  const TensorType type = gen.type(x);
  const Slides s = slides(gen, type.shape, true, false);
  const AttrList attrs{random.below(op == kWindowPick ? 2 : 3), s.size, s.strides, s.low, s.high, s.dilation};
  std::vector<ValueId> operands{x};
  if (op == kWindowPick) operands.push_back(gen.value(gen.element(Kind::kAny), type.shape));
  if (op == kWindowSpread) operands.push_back(gen.value(inferred(gen, kWindow, {type}, attrs)));
  gen.op(op, std::move(operands), attrs);
}

void make_pool(Generator& gen, TensorOp op) {
  const ElementType element = gen.element(op == kAvgPool ? Kind::kFloats : Kind::kNumbers);
  Shape shape{gen.extent(), gen.extent()};
  for (int64_t left = gen.random.between(1, 2); left > 0; --left) shape.push_back(gen.extent());
  if (!gen.small(shape)) shape[0] = shape[1] = Expr(1);
  const Slides s = slides(gen, std::span(shape).subspan(2), op == kMaxPool, false);
  AttrList attrs{s.size, s.strides, s.low, s.high};
  if (op == kMaxPool) {
    attrs.emplace_back(s.dilation);
  } else {
    attrs.emplace_back(gen.random.below(2));
  }
  gen.op(op, {gen.value(element, std::move(shape))}, std::move(attrs));
}

void make_resize(Generator& gen, TensorOp op) {
  const ValueId x = gen.tensor({.kind = Kind::kFloats, .low_rank = 1, .high_rank = 3, .some = true});
  Shape to;
  for (int64_t left = gen.random.between(1, std::min(2, gen.type(x).rank())); left > 0; --left)
    to.push_back(gen.extent());
  gen.op(op, {x}, {std::move(to), gen.random.below(3), gen.random.below(2)});
}

}  // namespace

void make_windows(Generator& gen, TensorOp op) {
  switch (graph::info(op).family) {
    case graph::Family::kConv:
      return make_conv(gen, op);
    case graph::Family::kResize:
      return make_resize(gen, op);
    default:
      return op == kMaxPool || op == kAvgPool ? make_pool(gen, op) : make_window(gen, op);
  }
}

}  // namespace kiln::random_graph
