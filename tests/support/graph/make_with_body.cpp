// Makers of what runs a body or a kernel.
#include "graph/generator.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/extents.h"

namespace kiln::random_graph {
namespace {

using enum TensorOp;

// Twice the sum of two arrays, a block after the other.
constexpr const char* kTwice = R"(kernel twice(%x: ptr<f32> readonly, %y: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {
  constexpr BLOCK = 64
  grid [div(BLOCK + n - 1, BLOCK), 1, 1]

  %0 = program_id {axis = 0} : i32
  %1 = constant {value = BLOCK, type = i32} : i32
  %2 = mul %0, %1 : i32
  %3 = splat %2 {shape = [BLOCK]} : tile<[BLOCK], i32>
  %4 = arange {start = 0, end = BLOCK} : tile<[BLOCK], i32>
  %5 = add %3, %4 : tile<[BLOCK], i32>
  %6 = splat %n {shape = [BLOCK]} : tile<[BLOCK], i32>
  %7 = cmp %5, %6 {pred = lt} : tile<[BLOCK], i1>
  %8 = cast %5 {to = i64} : tile<[BLOCK], i64>
  %9 = splat %x {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
  %10 = addptr %9, %8 : tile<[BLOCK], ptr<f32>>
  %11 = load %10, %7 : tile<[BLOCK], f32>
  %12 = splat %y {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
  %13 = addptr %12, %8 : tile<[BLOCK], ptr<f32>>
  %14 = load %13, %7 : tile<[BLOCK], f32>
  %15 = add %11, %14 : tile<[BLOCK], f32>
  %16 = add %15, %15 : tile<[BLOCK], f32>
  %17 = splat %out {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
  %18 = addptr %17, %8 : tile<[BLOCK], ptr<f32>>
  store %18, %16, %7
}
)";

void make_kernel(Generator& gen) {
  auto tile = dsl::parse(kTwice, "twice.kiln");
  if (!tile) throw Fault(tile.error().message);
  const TensorType type{ElementType::kF32, gen.shape(0, 3)};
  const ValueId x = gen.value(type), y = gen.value(type);
  using Argument = graph::TileKernel::Argument;
  graph::TileKernel kernel;
  kernel.name = "twice" + std::to_string(gen.builder().graph().kernels.size());
  kernel.kernel = std::move(*tile);
  kernel.arguments = {{Argument::Kind::kOperand, 0, {}},
                      {Argument::Kind::kOperand, 1, {}},
                      {Argument::Kind::kResult, 0, {}},
                      {Argument::Kind::kScalar, 0, graph::element_count(type.shape)}};
  kernel.operands = {type, type};
  kernel.results = {type};
  auto number = gen.builder().add_kernel(std::move(kernel));
  if (!number) throw Fault(number.error().message);
  if (gen.random.chance(50)) {  // 2·g of each, by an op whose gradient is known
    const graph::BodyId gradient = gen.body("twice_gradient", {type, type, type, type}, [&](const auto& inputs) {
      const ValueId twice = gen.op(kAdd, {inputs[3], inputs[3]});
      return std::vector<ValueId>{twice, twice};
    });
    gen.builder().set_kernel_gradient(*number, gradient);
  }
  gen.op(kKernel, {x, y}, {int64_t{*number}});
}

// Outputs of these types, from what a few nodes made.
std::vector<ValueId> outputs_of(Generator& gen, const std::vector<TensorType>& types) {
  std::vector<ValueId> out;
  out.reserve(types.size());
  for (const TensorType& type : types) out.push_back(gen.value(type));
  return out;
}

std::vector<TensorType> types_of(Generator& gen, const std::vector<ValueId>& values) {
  std::vector<TensorType> out;
  for (const ValueId value : values) out.push_back(gen.type(value));
  return out;
}

std::vector<ValueId> some_tensors(Generator& gen, int64_t least, int64_t most) {
  std::vector<ValueId> out;
  for (int64_t left = gen.random.between(least, most); left > 0; --left) out.push_back(gen.tensor({.high_rank = 2}));
  return out;
}

void make_loop(Generator& gen) {
  Random& random = gen.random;
  const Expr length = random.chance(20) ? Expr(random.below(3)) : gen.extent();
  std::vector<ValueId> operands = some_tensors(gen, 0, 2);
  std::vector<TensorType> inputs = types_of(gen, operands);
  const auto carried = static_cast<int64_t>(operands.size());
  const std::vector<TensorType> next = inputs;
  const int64_t scanned = random.below(3);
  for (int64_t i = 0; i < scanned; ++i) {
    TensorType slice{gen.element(Kind::kAny), gen.shape(0, 2)};
    Shape whole = slice.shape;
    whole.insert(whole.begin(), length);
    operands.push_back(gen.value(slice.element, std::move(whole)));
    inputs.push_back(std::move(slice));
  }
  for (const ValueId constant : some_tensors(gen, 0, 1)) {
    operands.push_back(constant);
    inputs.push_back(gen.type(constant));
  }
  const int64_t stacks = random.between(carried == 0 ? 1 : 0, 2);
  const graph::BodyId body = gen.body("step", inputs, [&](const std::vector<ValueId>&) {
    gen.grow(static_cast<int>(random.between(1, 4)));
    std::vector<ValueId> out = outputs_of(gen, next);
    for (int64_t i = 0; i < stacks; ++i) out.push_back(gen.tensor({.high_rank = 2}));
    return out;
  });
  gen.op(kLoop, std::move(operands), {int64_t{body}, carried, scanned, length, random.below(2)});
}

void make_cond(Generator& gen) {
  Random& random = gen.random;
  std::vector<ValueId> operands = some_tensors(gen, 0, 3);
  const std::vector<TensorType> inputs = types_of(gen, operands);
  operands.insert(operands.begin(), gen.value(ElementType::kI1, {}));
  std::vector<TensorType> gives;
  const graph::BodyId then = gen.body("then", inputs, [&](const std::vector<ValueId>&) {
    gen.grow(static_cast<int>(random.between(1, 3)));
    const std::vector<ValueId> out = some_tensors(gen, 1, 2);
    gives = types_of(gen, out);
    return out;
  });
  const graph::BodyId otherwise = gen.body("otherwise", inputs, [&](const std::vector<ValueId>&) {
    gen.grow(static_cast<int>(random.between(0, 3)));
    return outputs_of(gen, gives);
  });
  gen.op(kCond, std::move(operands), {int64_t{then}, int64_t{otherwise}});
}

// Adds, multiplies, or takes the least or greatest of scalars: what is associative, or nearly so.
void make_custom(Generator& gen, TensorOp op) {
  Random& random = gen.random;
  const bool scans = op == kScanCustom;
  const ValueId first = gen.tensor({.kind = Kind::kNumbers, .low_rank = scans ? 1 : 0});
  std::vector<ValueId> operands{first};
  const Shape shape = gen.type(first).shape;
  if (random.chance(40)) operands.push_back(gen.value(gen.element(Kind::kNumbers), shape));
  const size_t count = operands.size();
  std::vector<TensorType> scalars;
  for (const ValueId operand : operands) scalars.push_back({gen.type(operand).element, {}});
  for (size_t i = 0; !scans && i < count; ++i) operands.push_back(gen.value(scalars[i]));
  std::vector<TensorType> sides = scalars;
  sides.insert(sides.end(), scalars.begin(), scalars.end());
  const graph::BodyId body = gen.body("combine", sides, [&](const std::vector<ValueId>& inputs) {
    std::vector<ValueId> out;
    for (size_t i = 0; i < count; ++i) {
      const TensorOp ways[] = {kAdd, kMul, kMin, kMax};
      out.push_back(gen.op(random.pick(ways), {inputs[i], inputs[count + i]}));
    }
    return out;
  });
  const auto rank = static_cast<int64_t>(shape.size());
  if (scans) {
    gen.op(op, std::move(operands), {int64_t{body}, random.below(rank), random.below(2)});
    return;
  }
  Ints axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (random.chance(60)) axes.push_back(axis);
  }
  gen.op(op, std::move(operands), {int64_t{body}, std::move(axes), random.below(2)});
}

}  // namespace

void make_with_body(Generator& gen, TensorOp op) {
  switch (op) {
    case kKernel:
      return make_kernel(gen);
    case kLoop:
      return make_loop(gen);
    case kCond:
      return make_cond(gen);
    case kCall: {
      std::vector<ValueId> operands = some_tensors(gen, 0, 3);
      const graph::BodyId body = gen.body("part", types_of(gen, operands), [&](const std::vector<ValueId>&) {
        gen.grow(static_cast<int>(gen.random.between(1, 5)));
        return some_tensors(gen, 1, 3);
      });
      gen.op(op, std::move(operands), {int64_t{body}, gen.random.below(2)});
      return;
    }
    default:
      make_custom(gen, op);
  }
}

}  // namespace kiln::random_graph
