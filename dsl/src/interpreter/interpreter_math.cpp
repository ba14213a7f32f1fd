// Interpreter: elementary functions. One precision more than the element has, then one rounding: f32 and below through
// double, f64 through long double.
#include <cmath>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
namespace {

// Bits, those of a NaN too.
void copy_signs(ElementType type, const Tile& x, const Tile& y, Tile& out) {
  const uint64_t sign = uint64_t{1} << (info(type).bits - 1);
  for (size_t lane = 0; lane < out.size(); ++lane) out.bits[lane] = (x.bits[lane] & (sign - 1)) | (y.bits[lane] & sign);
}

}  // namespace

void run_math(Machine& machine, const Op& op) {
  const MathFn function = static_cast<MathFn>(int_attr(op, 0));
  Tile& out = machine.result(op);
  const Tile& x = machine.operand(op, 0);
  const Tile& y = machine.operand(op, op.operands.size() - 1);
  if (function == MathFn::kCopysign) return copy_signs(machine.element(op), x, y, out);
  with_float(machine.element(op), [&](auto of) {
    for (size_t lane = 0; lane < out.size(); ++lane) {
      out.bits[lane] = math_bits<decltype(of)>(function, x.bits[lane], y.bits[lane]);
    }
  });
}

}  // namespace kiln::dsl::interpreter
