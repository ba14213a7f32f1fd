// Interpreter: scans. The running value of a small float stays f32; each element is rounded once.
#include "interpreter/interpreter_impl.h"
#include "interpreter/interpreter_reduce.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
namespace {

void scan_kind(Machine& machine, const Op& op, ReduceKind kind, const Lines& lines, bool reverse) {
  const Tile& x = machine.operand(op, 0);
  Tile& out = machine.result(op);
  with_element(machine.element(op), [&](auto of) {
    using Lane = decltype(of);
    for (size_t line = 0; line < lines.count; ++line) {
      typename Lane::Number running{};
      IndexWatch watch(kind);
      for (size_t i = 0; i < lines.length; ++i) {
        const size_t lane = lines.at(line, reverse ? lines.length - 1 - i : i);
        const auto number = Lane::decode(x.bits[lane]);
        running = i == 0 ? number : combine_two(kind, running, number);
        out.bits[lane] = encode_combined<Lane>(kind, running);
        if constexpr (!std::is_floating_point_v<typename Lane::Number>) {
          watch.take(number, x.is_wrapped(lane));
          if (watch.wrapped(running)) out.mark_wrapped(lane);
        }
      }
    }
  });
}

}  // namespace

Result<void> run_scan(Machine& machine, const Op& op) {
  const ReduceKind kind = static_cast<ReduceKind>(int_attr(op, 0));
  const Lines lines(machine.operand_shape(op, 0), int_attr(op, 1));
  const bool reverse = int_attr(op, 2) != 0;
  if (kind != ReduceKind::kCustom) {
    scan_kind(machine, op, kind, lines, reverse);
    return {};
  }
  for (size_t x = 0; x < op.results.size(); ++x) machine.result(op, x);
  const CombineLanes scope(machine, op, lines.count);
  std::vector<Tile> left, right;
  for (size_t i = 0; i < lines.length; ++i) {
    const size_t place = reverse ? lines.length - 1 - i : i;
    read_slice(machine, op, lines, place, i == 0 ? left : right);
    if (i > 0) {
      if (auto done = combine(machine, op, left, right); !done) return done;
    }
    for (size_t x = 0; x < left.size(); ++x) {
      Tile& out = machine.values[op.results[x]];
      for (size_t line = 0; line < lines.count; ++line) {
        out.bits[lines.at(line, place)] = left[x].bits[line];
        if (left[x].is_wrapped(line)) out.mark_wrapped(lines.at(line, place));
      }
    }
  }
  return {};
}

}  // namespace kiln::dsl::interpreter
