// Interpreter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers, As Easy as 1, 2, 3).
#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
void run_philox(Machine& machine, const Op& op) {
  for (size_t i = 0; i < 4; ++i) machine.result(op, i);
  const Tile &seed = machine.operand(op, 0), &offset = machine.operand(op, 1);
  for (size_t lane = 0; lane < seed.size(); ++lane) {
    const std::array<uint32_t, 4> words = philox(seed.bits[lane], offset.bits[lane]);
    for (size_t i = 0; i < 4; ++i) machine.values[op.results[i]].bits[lane] = words[i];
  }
}

}  // namespace kiln::dsl::interpreter
