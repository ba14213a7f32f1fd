// Interpreter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers, As Easy as 1, 2, 3).
#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t offset) {
  std::array<uint32_t, 4> counter = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 0, 0};
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace

void run_philox(Machine& machine, const Op& op) {
  for (size_t i = 0; i < 4; ++i) machine.result(op, i);
  const Tile &seed = machine.operand(op, 0), &offset = machine.operand(op, 1);
  for (size_t lane = 0; lane < seed.size(); ++lane) {
    const std::array<uint32_t, 4> words = philox(seed.bits[lane], offset.bits[lane]);
    for (size_t i = 0; i < 4; ++i) machine.values[op.results[i]].bits[lane] = words[i];
  }
}

}  // namespace kiln::dsl::interpreter
