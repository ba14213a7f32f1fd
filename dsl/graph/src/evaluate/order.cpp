// Evaluator: sort, topk, histogram. NaN is the greatest key and equal to itself; -0 equals +0.
#include <algorithm>

#include "evaluate/array_loops.h"
#include "kiln/dsl/scalar_lanes.h"

namespace kiln::graph::evaluator {
namespace {

// Numbers whose order as uint64 is that of the elements.
std::vector<uint64_t> sort_keys(const Array& x) {
  std::vector<uint64_t> keys = all_bits(x);
  const auto& type = dsl::info(x.element);
  const uint64_t sign = uint64_t{1} << 63;
  for (uint64_t& key : keys) {
    if (!dsl::is_float(x.element)) {
      key = type.is_signed ? static_cast<uint64_t>(wide_from_bits(type, key)) ^ sign : key;
    } else {
      const double number = dsl::double_from_bits(x.element, key);  // exact, of every type
      const uint64_t bits = number == 0 ? 0 : std::bit_cast<uint64_t>(number);
      key = std::isnan(number) ? ~uint64_t{0} : (bits & sign) != 0 ? ~bits : bits | sign;
    }
  }
  return keys;
}

// The first `count` of each line along an axis in stable order: values, and where they came from.
void give_sorted(Step& step, int64_t axis, bool descending, int64_t count) {
  const Array& x = step.operand(0);
  const std::vector<int64_t> order = moved_last(x.shape.size(), {&axis, 1});
  const Array moved = permuted(x, order);
  Extents shape = moved.shape;
  shape.back() = count;
  const auto length = static_cast<size_t>(moved.shape.back());
  const std::vector<uint64_t> bits = all_bits(moved), keys = sort_keys(moved);
  std::vector<uint64_t> values, indices;
  std::vector<size_t> places(length);
  for (size_t line = 0; line < bits.size(); line += length) {
    std::iota(places.begin(), places.end(), line);
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return descending ? keys[b] < keys[a] : keys[a] < keys[b]; });
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      values.push_back(bits[places[i]]);
      indices.push_back(places[i] - line);
    }
  }
  auto give = [&](ElementType type, const std::vector<uint64_t>& bits) {
    Array out = own(type, shape);
    store_all(out, bits);
    step.give(permuted(out, inverse(order)));
  };
  give(x.element, values);
  give(ElementType::kI64, indices);
}

Result<void> run_topk(Step& step) {
  auto k = step.machine.number(expr_attr(step.attrs(), 0));
  if (!k) return step.fail(k.error().message);
  const int64_t axis = int_attr(step.attrs(), 1), extent = step.operand(0).shape[static_cast<size_t>(axis)];
  if (*k < 0 || *k > extent) {
    return step.fail("k is " + std::to_string(*k) + " of axis " + std::to_string(axis) + " of extent " +
                     std::to_string(extent));
  }
  give_sorted(step, axis, flag_attr(step.attrs(), 2), *k);
  return {};
}

void run_histogram(Step& step) {
  const Array& x = step.operand(0);
  Array& out = step.make();
  std::vector<uint64_t> counts(static_cast<size_t>(out.count()));
  for (const uint64_t bits : all_bits(x)) {
    const Wide value = wide_from_bits(dsl::info(x.element), bits);
    if (value >= 0 && value < static_cast<Wide>(counts.size())) ++counts[static_cast<size_t>(value)];
  }
  store_all(out, counts);
}

}  // namespace

Result<void> run_order(Step& step) {
  if (step.node.op == TensorOp::kTopk) return run_topk(step);
  if (step.node.op == TensorOp::kHistogram) {
    run_histogram(step);
    return {};
  }
  const int64_t axis = int_attr(step.attrs(), 0);
  give_sorted(step, axis, flag_attr(step.attrs(), 1), step.operand(0).shape[static_cast<size_t>(axis)]);
  return {};
}

}  // namespace kiln::graph::evaluator
