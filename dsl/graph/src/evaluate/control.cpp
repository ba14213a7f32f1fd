// Evaluator: loops, conditions and calls.
#include "evaluate/array_loops.h"

namespace kiln::graph::evaluator {
namespace {

struct Loop {
  BodyId body;
  size_t carried, scanned;
  int64_t length;
  bool reverse;
};

// One pass: carried values are replaced, stacks get their part.
Result<void> run_pass(Step& step, const Loop& loop, int64_t place, std::vector<Array>& carried,
                      std::vector<Array>& stacks) {
  std::vector<Array> inputs = std::move(carried);
  for (size_t i = 0; i < loop.scanned; ++i) inputs.push_back(dropped(step.operand(loop.carried + i), 0, place));
  for (size_t i = loop.carried + loop.scanned; i < step.operands.size(); ++i) inputs.push_back(step.operand(i));
  auto out = run_body(step.machine, loop.body, std::move(inputs));
  if (!out) return out.error();
  for (size_t i = 0; i < stacks.size(); ++i) {
    Array part = dropped(stacks[i], 0, place);
    copy((*out)[loop.carried + i], part);
  }
  out->resize(loop.carried);
  carried = std::move(*out);
  return {};
}

Result<void> run_loop(Step& step) {
  const AttrList& attrs = step.attrs();
  auto length = step.machine.number(expr_attr(attrs, 3));
  if (!length) return step.fail(length.error().message);
  if (*length < 0) return step.fail("its length is " + std::to_string(*length));
  const Loop loop{static_cast<BodyId>(int_attr(attrs, 0)), static_cast<size_t>(int_attr(attrs, 1)),
                  static_cast<size_t>(int_attr(attrs, 2)), *length, flag_attr(attrs, 4)};
  std::vector<Array> carried, stacks;
  for (size_t i = 0; i < loop.carried; ++i) carried.push_back(step.operand(i));
  for (size_t i = loop.carried; i < step.node.result_count; ++i) {
    stacks.push_back(own(step.machine.computed(step.declared_result(i)), step.shape(i)));
  }
  for (int64_t i = 0; i < loop.length; ++i) {
    auto done = run_pass(step, loop, loop.reverse ? loop.length - 1 - i : i, carried, stacks);
    if (!done) return done;
  }
  for (Array& array : carried) step.give(std::move(array));
  for (Array& array : stacks) step.give(std::move(array));
  return {};
}

Result<void> run_one(Step& step, BodyId body, size_t first_operand) {
  std::vector<Array> inputs;
  for (size_t i = first_operand; i < step.operands.size(); ++i) inputs.push_back(step.operand(i));
  auto out = run_body(step.machine, body, std::move(inputs));
  if (!out) return out.error();
  step.results = std::move(*out);
  return {};
}

}  // namespace

Result<void> run_control(Step& step) {
  switch (step.node.op) {
    case TensorOp::kLoop:
      return run_loop(step);
    case TensorOp::kCond:
      return run_one(step, static_cast<BodyId>(int_attr(step.attrs(), step.operand(0).bits(0) != 0 ? 0 : 1)), 1);
    default:  // kCall
      return run_one(step, static_cast<BodyId>(int_attr(step.attrs(), 0)), 0);
  }
}

}  // namespace kiln::graph::evaluator
