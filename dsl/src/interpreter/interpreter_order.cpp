// Interpreter: sort, topk, histogram. NaN is the greatest key and equal to itself; -0 equals +0.
#include <algorithm>
#include <numeric>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
namespace {

// For each line of x the stable order of its elements: function(line, positions).
template <class Function>
void for_each_order(ElementType type, const Tile& x, const Lines& lines, bool descending, Function function) {
  with_element(type, [&](auto of) {
    using Lane = decltype(of);
    std::vector<typename Lane::Number> keys(lines.length);
    std::vector<size_t> order(lines.length);
    for (size_t line = 0; line < lines.count; ++line) {
      for (size_t i = 0; i < lines.length; ++i) keys[i] = Lane::decode(x.bits[lines.at(line, i)]);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return descending ? goes_before(keys[b], keys[a]) : goes_before(keys[a], keys[b]);
      });
      function(line, order);
    }
  });
}

}  // namespace

void run_sort(Machine& machine, const Op& op) {
  const Lines lines(machine.operand_shape(op, 0), int_attr(op, 0));
  for (size_t i = 0; i < op.results.size(); ++i) machine.result(op, i);
  auto place = [&](size_t line, const std::vector<size_t>& order) {
    for (size_t x = 0; x < op.operands.size(); ++x) {
      Tile& out = machine.values[op.results[x]];
      for (size_t i = 0; i < order.size(); ++i) {
        const size_t from = lines.at(line, order[i]), to = lines.at(line, i);
        out.bits[to] = machine.operand(op, x).bits[from];
        if (machine.operand(op, x).is_wrapped(from)) out.mark_wrapped(to);
      }
    }
  };
  for_each_order(machine.element(op), machine.operand(op, 0), lines, int_attr(op, 1) != 0, place);
}

Result<void> run_topk(Machine& machine, const Op& op) {
  auto k = constant_attr(machine, op, 0);
  if (!k) return k.error();
  const Lines lines(machine.operand_shape(op, 0), int_attr(op, 1)), to(machine.result_shape(op), int_attr(op, 1));
  const Tile& x = machine.operand(op, 0);
  Tile &values = machine.result(op, 0), &indices = machine.result(op, 1);
  auto place = [&](size_t line, const std::vector<size_t>& order) {
    for (size_t i = 0; i < static_cast<size_t>(*k); ++i) {
      values.bits[to.at(line, i)] = x.bits[lines.at(line, order[i])];
      if (x.is_wrapped(lines.at(line, order[i]))) values.mark_wrapped(to.at(line, i));
      indices.bits[to.at(line, i)] = order[i];
    }
  };
  for_each_order(machine.element(op), x, lines, int_attr(op, 2) != 0, place);
  return {};
}

void run_histogram(Machine& machine, const Op& op) {
  const ElementTypeInfo& type = info(machine.element(op));
  Tile& out = machine.result(op);
  std::fill(out.bits.begin(), out.bits.end(), 0);
  for (uint64_t bits : machine.operand(op, 0).bits) {
    const Wide value = wide_from_bits(type, bits);
    if (value >= 0 && value < static_cast<Wide>(out.size())) ++out.bits[static_cast<size_t>(value)];
  }
}

}  // namespace kiln::dsl::interpreter
