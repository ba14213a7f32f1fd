// Random numbers from Philox.
#include "library/library_helpers.h"

namespace kiln::dsl::lang {
namespace {

// The high 24 bits of a word as a number in [0, 1): exact, and never 1.
Value unit(const Value& word) { return cast(word >> 8, f32_t) * 0x1p-24f; }

}  // namespace

Value rand(Operand seed, Operand offset) {
  const Trace::LocationScope scope(seed.loc());
  return unit(philox(seed, offset)[0]);
}

// Box–Muller. 1 - u is never 0.
Value randn(Operand seed, Operand offset) {
  const Trace::LocationScope scope(seed.loc());
  constexpr double kTwoPi = 6.28318530717958647692;
  const std::array<Value, 4> words = philox(seed, offset);
  return sqrt(-2 * log(1 - unit(words[0]))) * cos(unit(words[1]) * kTwoPi);
}

// The high half of word·span: of all spans the numbers are as likely as each other within 2^-32.
Value randint(Operand seed, Operand offset, Operand low, Operand high) {
  const Trace::LocationScope scope(seed.loc());
  const std::vector<Value> bounds = promote({low, high}, "randint");
  if (bounds.empty()) return {};
  const ElementType type = bounds[0].element();
  if (type != i32_t && type != u32_t) {
    report(seed.loc(), "randint: the bounds must be i32 or u32 (" + type_text(bounds[0].type()) + ")");
    return {};
  }
  const Value span = where(bounds[0] < bounds[1], bitcast(bounds[1] - bounds[0], u32_t), 0);
  return bounds[0] + bitcast(mulhi(philox(seed, offset)[0], span), type);
}

Value dropout(Operand x, Operand p, Operand seed, Operand offset) {
  return in_f32(x, [&](Value v) {
    const Value kept = rand(seed, offset) >= p;
    return where(kept, v * (1 / (1 - cast(p, v.element()))), 0);
  });
}

}  // namespace kiln::dsl::lang
