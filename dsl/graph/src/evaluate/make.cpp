// Evaluator: tensors that come from nothing but attributes.
#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_cast.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::graph::evaluator {
namespace {

// Elements of a declared type as they are computed here: floats of any type are f64 where the evaluation is wide.
void store_declared(Array& out, ElementType declared, std::vector<uint64_t> bits) {
  with_cast(declared, out.element, [&](auto convert) {
    for (uint64_t& word : bits) word = convert(word);
  });
  store_all(out, bits);
}

void make_iota(Step& step) {
  const Extents shape = step.shape();
  const auto axis = static_cast<size_t>(int_attr(step.attrs(), 2));
  std::vector<int64_t> line_shape(shape.size(), 1);
  line_shape[axis] = shape[axis];
  Array line = own(ElementType::kI64, line_shape);
  for (int64_t i = 0; i < shape[axis]; ++i) store_bits<IntLane<int64_t>>(line, i, static_cast<uint64_t>(i));
  step.give(broadcast_view(converted(line, step.machine.computed(step.declared_result())), shape));
}

void make_philox(Step& step) {
  const uint64_t seed = step.operand(0).bits(0), offset = step.operand(1).bits(0);
  Array& out = step.make();
  const int64_t count = out.count();
  for (int64_t i = 0; i < count; i += 4) {
    const auto words = dsl::scalar::philox(seed, offset + static_cast<uint64_t>(i / 4));
    for (int64_t j = 0; j < 4 && i + j < count; ++j) {
      store_bits<IntLane<uint32_t>>(out, i + j, words[static_cast<size_t>(j)]);
    }
  }
}

}  // namespace

Result<void> run_make(Step& step) {
  switch (step.node.op) {
    case TensorOp::kConstant: {
      const auto& data = std::get<std::vector<uint64_t>>(step.attrs()[2]);
      Array one = own(step.machine.computed(step.declared_result()),
                      step.machine.shapes[step.body.values[step.node.first_result].type]);
      store_declared(one, step.declared_result(), data);
      step.give(step.lanes >= 0 ? broadcast_view(one, step.shape()) : std::move(one));
      return {};
    }
    case TensorOp::kFull: {
      Array one = own(step.machine.computed(step.declared_result()), {});
      store_declared(one, step.declared_result(), {std::get<Literal>(step.attrs()[2]).bits});
      step.give(broadcast_view(one, step.shape()));
      return {};
    }
    case TensorOp::kExtent: {
      auto value = step.machine.number(expr_attr(step.attrs(), 1));
      if (!value) return step.fail(value.error().message);
      Array one = own(ElementType::kI64, {});
      store_bits<IntLane<int64_t>>(one, 0, static_cast<uint64_t>(*value));
      step.give(broadcast_view(converted(one, step.machine.computed(step.declared_result())), step.shape()));
      return {};
    }
    case TensorOp::kIota:
      make_iota(step);
      return {};
    default:  // kPhilox
      make_philox(step);
      return {};
  }
}

}  // namespace kiln::graph::evaluator
