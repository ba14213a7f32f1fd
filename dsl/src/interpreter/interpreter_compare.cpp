// Interpreter: comparison and selection.
#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {

void run_cmp(Machine& machine, const Op& op) {
  Tile& out = machine.result(op);
  const Tile &a = machine.operand(op, 0), &b = machine.operand(op, 1);
  with_element(machine.element(op), [&](auto of) {
    using Lane = decltype(of);
    auto compare = [&](auto holds) {
      for (size_t lane = 0; lane < out.size(); ++lane) {
        out.bits[lane] = holds(Lane::decode(a.bits[lane]), Lane::decode(b.bits[lane]));
      }
    };
    switch (static_cast<Predicate>(int_attr(op, 0))) {
      case Predicate::kEq:
        return compare([](auto x, auto y) { return x == y; });
      case Predicate::kNe:
        return compare([](auto x, auto y) { return x != y; });  // true for NaN: unordered
      case Predicate::kLt:
        return compare([](auto x, auto y) { return x < y; });
      case Predicate::kLe:
        return compare([](auto x, auto y) { return x <= y; });
      case Predicate::kGt:
        return compare([](auto x, auto y) { return x > y; });
      case Predicate::kGe:
        return compare([](auto x, auto y) { return x >= y; });
    }
  });
}

void run_select(Machine& machine, const Op& op) {
  Tile& out = machine.result(op);
  const Tile &condition = machine.operand(op, 0), &a = machine.operand(op, 1), &b = machine.operand(op, 2);
  for (size_t lane = 0; lane < out.size(); ++lane) {
    out.bits[lane] = condition.bits[lane] != 0 ? a.bits[lane] : b.bits[lane];
  }
  if (!a.base.empty()) out.base.resize(out.size());
  for (size_t lane = 0; lane < out.base.size(); ++lane) {
    out.base[lane] = condition.bits[lane] != 0 ? a.base[lane] : b.base[lane];
  }
  if (a.wrapped.empty() && b.wrapped.empty()) return;
  for (size_t lane = 0; lane < out.size(); ++lane) {
    if ((condition.bits[lane] != 0 ? a : b).is_wrapped(lane)) out.mark_wrapped(lane);
  }
}

}  // namespace kiln::dsl::interpreter
