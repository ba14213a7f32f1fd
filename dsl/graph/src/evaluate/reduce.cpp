// Evaluator: reductions, scans, and those by a body.
#include <algorithm>

#include "evaluate/combine.h"

namespace kiln::graph::evaluator {
namespace {

// The given axes last, and their elements as one line: [lines, length].
Array lines_of(const Array& x, std::span<const int64_t> axes) {
  Array out = permuted(x, moved_last(x.shape.size(), axes));
  const size_t kept = x.shape.size() - axes.size();
  const int64_t lines = count_of(std::span(out.shape).first(kept)),
                length = count_of(std::span(out.shape).subspan(kept));
  return reshaped(out, {lines, length});
}

std::vector<int64_t> sorted(std::vector<int64_t> axes) {
  std::sort(axes.begin(), axes.end());
  return axes;
}

void reduce_kind(Step& step, dsl::ReduceKind kind) {
  const Array lines = lines_of(step.operand(0), sorted(ints_attr(step.attrs(), 1)));
  const auto length = static_cast<size_t>(lines.shape[1]);
  Array& out = step.make();
  with_element(lines.element, [&](auto of) {
    using Lane = decltype(of);
    const std::vector<typename Lane::Number> all = numbers<Lane>(lines);
    for (int64_t line = 0; line < lines.shape[0]; ++line) {
      const std::span numbers = std::span(all).subspan(static_cast<size_t>(line) * length, length);
      store_bits<Lane>(out, line, combine_all<Lane>(lines.element, kind, numbers));
    }
  });
}

Result<void> arg_reduce(Step& step) {
  const int64_t axis = int_attr(step.attrs(), 1);
  const Array lines = lines_of(step.operand(0), {&axis, 1});
  const auto length = static_cast<size_t>(lines.shape[1]);
  if (length == 0 && lines.shape[0] > 0) return step.fail("axis " + std::to_string(axis) + " has no elements");
  const bool is_min = enum_attr<ArgKind>(step.attrs(), 0) == ArgKind::kMin;
  Array& out = step.make();
  with_element(lines.element, [&](auto of) {
    using Lane = decltype(of);
    const std::vector<typename Lane::Number> all = numbers<Lane>(lines);
    for (int64_t line = 0; line < lines.shape[0]; ++line) {
      const std::span numbers = std::span(all).subspan(static_cast<size_t>(line) * length, length);
      store_bits<IntLane<int64_t>>(out, line, extreme_index(numbers, is_min));
    }
  });
  return {};
}

// One line of numbers scanned into `bits`.
template <class Lane>
void scan_line(ElementType type, dsl::ReduceKind kind, std::span<const typename Lane::Number> x, bool reverse,
               bool exclusive, std::span<uint64_t> bits) {
  typename Lane::Number running{};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t place = reverse ? x.size() - 1 - i : i;
    if (exclusive) bits[place] = i == 0 ? neutral<Lane>(type, kind) : encode_combined<Lane>(kind, running);
    running = i == 0 ? x[place] : combine_two(kind, running, x[place]);
    if (!exclusive) bits[place] = encode_combined<Lane>(kind, running);
  }
}

// Results with the scanned axis last, back in their order.
Array with_axis(const Array& lines, const Extents& shape, int64_t axis) {
  const std::vector<int64_t> order = moved_last(shape.size(), {&axis, 1});
  Extents moved(shape.size());
  for (size_t i = 0; i < order.size(); ++i) moved[i] = shape[static_cast<size_t>(order[i])];
  return permuted(reshaped(lines, moved), inverse(order));
}

// left = body(left, right), element by element of [count] tensors, or of scalars one after the other where the body
// does not run lanewise.
Result<void> combine(Step& step, BodyId body, std::vector<Array>& left, const std::vector<Array>& right) {
  std::vector<Array> inputs = left;
  inputs.insert(inputs.end(), right.begin(), right.end());
  const int64_t count = left[0].count();
  if (step.machine.bodies[body].lanewise) {
    auto out = run_body(step.machine, body, std::move(inputs), count);
    if (!out) return out.error();
    left = std::move(*out);
    return {};
  }
  std::vector<Array> combined;
  for (const Array& array : left) combined.push_back(own(array.element, array.shape));
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Array> scalars;
    for (const Array& input : inputs) scalars.push_back(dropped(input, 0, i));
    auto out = run_body(step.machine, body, std::move(scalars));
    if (!out) return out.error();
    for (size_t k = 0; k < combined.size(); ++k) {
      Array place = dropped(combined[k], 0, i);
      copy((*out)[k], place);
    }
  }
  left = std::move(combined);
  return {};
}

std::vector<Array> slice_of(const std::vector<Array>& lines, int64_t i) {
  std::vector<Array> out;
  for (const Array& array : lines) out.push_back(dropped(array, 1, i));
  return out;
}

}  // namespace

Result<void> run_reduce(Step& step) {
  if (step.node.op == TensorOp::kArgReduce) return arg_reduce(step);
  if (step.node.op == TensorOp::kReduceCustom) return run_reduce_custom(step);
  reduce_kind(step, tile_kind(enum_attr<ReduceKind>(step.attrs(), 0)));
  return {};
}

Result<void> run_reduce_custom(Step& step) {
  const auto body = static_cast<BodyId>(int_attr(step.attrs(), 0));
  const std::vector<int64_t> axes = sorted(ints_attr(step.attrs(), 1));
  const size_t count = step.operands.size() / 2;
  std::vector<Array> lines, left;
  for (size_t i = 0; i < count; ++i) lines.push_back(lines_of(step.operand(i), axes));
  for (size_t i = 0; i < count; ++i) left.push_back(broadcast_view(step.operand(count + i), {lines[0].shape[0]}));
  for (int64_t i = 0; i < lines[0].shape[1]; ++i) {
    if (auto done = combine(step, body, left, slice_of(lines, i)); !done) return done;
  }
  for (size_t i = 0; i < count; ++i) step.give(reshaped(left[i], step.shape(i)));
  return {};
}

Result<void> run_scan(Step& step) {
  if (step.node.op == TensorOp::kScanCustom) return run_scan_custom(step);
  const dsl::ReduceKind kind = tile_kind(enum_attr<ReduceKind>(step.attrs(), 0));
  const int64_t axis = int_attr(step.attrs(), 1);
  const bool reverse = flag_attr(step.attrs(), 2), exclusive = flag_attr(step.attrs(), 3);
  const Array lines = lines_of(step.operand(0), {&axis, 1});
  const auto length = static_cast<size_t>(lines.shape[1]);
  std::vector<uint64_t> bits(static_cast<size_t>(lines.count()));
  with_element(lines.element, [&](auto of) {
    using Lane = decltype(of);
    const std::vector<typename Lane::Number> all = numbers<Lane>(lines);
    for (size_t at = 0; at < all.size(); at += length) {
      scan_line<Lane>(lines.element, kind, std::span(all).subspan(at, length), reverse, exclusive,
                      std::span(bits).subspan(at, length));
    }
  });
  Array out = own(lines.element, lines.shape);
  store_all(out, bits);
  step.give(with_axis(out, step.operand(0).shape, axis));
  return {};
}

Result<void> run_scan_custom(Step& step) {
  const auto body = static_cast<BodyId>(int_attr(step.attrs(), 0));
  const int64_t axis = int_attr(step.attrs(), 1);
  const bool reverse = flag_attr(step.attrs(), 2);
  std::vector<Array> lines, left, out;
  for (const Array* x : step.operands) {
    lines.push_back(lines_of(*x, {&axis, 1}));
    out.push_back(own(x->element, lines.back().shape));
  }
  const int64_t length = lines[0].shape[1];
  for (int64_t i = 0; i < length; ++i) {
    const int64_t place = reverse ? length - 1 - i : i;
    if (i == 0) {
      left = slice_of(lines, place);
    } else if (auto done = combine(step, body, left, slice_of(lines, place)); !done) {
      return done;
    }
    for (size_t k = 0; k < out.size(); ++k) {
      Array column = dropped(out[k], 1, place);
      copy(left[k], column);
    }
  }
  for (const Array& array : out) step.give(with_axis(array, step.operand(0).shape, axis));
  return {};
}

}  // namespace kiln::graph::evaluator
