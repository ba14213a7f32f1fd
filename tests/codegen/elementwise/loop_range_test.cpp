// Loops whose index comes near the ends of its type, of all int types: how often they run, and what the index is.
#include <algorithm>
#include <optional>
#include <random>

#include "differential.h"
#include "kiln/dsl/wide.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using dsl::Wide;

const ElementType kIndexTypes[] = {ElementType::kI8, ElementType::kI16, ElementType::kI32, ElementType::kI64,
                                   ElementType::kU8, ElementType::kU16, ElementType::kU32, ElementType::kU64};

struct Range {
  Wide start, end, step;
};

uint64_t bits_of(ElementType type, Wide number) { return dsl::bits_from_number(type, number); }
std::string text_of(ElementType type, Wide number) {
  return dsl::info(type).is_signed ? std::to_string(static_cast<int64_t>(number))
                                   : std::to_string(static_cast<uint64_t>(number));
}

// y[0] = the number of iterations, y[1] = what the indices and the carried values give; a loop over loads beside it
// stores x[0] + x[1] + … of as many iterations. Bounds are arguments, or `constant`.
std::string loop_text(ElementType type, const std::optional<Range>& constant, int stages) {
  const std::string name(dsl::info(type).name);
  TextKernel k("%y: ptr<i64>, %x: ptr<f32> readonly, %z: ptr<f32>, %a: " + name + ", %b: " + name + ", %c: " + name);
  std::string start = "%a", end = "%b", step = "%c";
  if (constant) {
    start = k.constant(text_of(type, constant->start), name);
    end = k.constant(text_of(type, constant->end), name);
    step = k.constant(text_of(type, constant->step), name);
  }
  const std::string zero = k.constant("0", "i64"), one = k.constant("1", "i64"), places = k.pointers("%x", {8});
  k.line("%none = splat " + k.constant("0.0", "f32") + " {shape = [8]}");
  k.line("%n, %h, %s = for %i = " + start + " to " + end + " step " + step + " carry (%d = " + zero + ", %g = " + zero +
         ", %t = %none) {num_stages = " + std::to_string(stages) + "} : i64, i64, tile<[8], f32> {");
  k.line("  %d2 = add %d, " + one + "\n    %w = cast %i {to = i64}");
  k.line("  %f = constant {value = 31, type = i64}\n    %m = mul %g, %f\n    %g2 = xor %m, %w");
  k.line("  %eight = constant {value = 8, type = i64}\n    %o = mul %d, %eight\n    %os = splat %o {shape = [8]}");
  k.line("  %at = addptr " + places + ", %os\n    %v = load %at\n    %u2 = add %t, %v");
  k.line("  yield %d2, %g2, %u2\n  }");
  k.line("store %y, %n\n  %second = addptr %y, " + one + "\n  store %second, %h");
  k.line("store " + k.pointers("%z", {8}) + ", %s");
  return k.text();
}

void expect_loop(ElementType type, const Range& range, bool is_constant, int stages) {
  SCOPED_TRACE(std::string(dsl::info(type).name) + " from " + text_of(type, range.start) + " to " +
               text_of(type, range.end) + " by " + text_of(type, range.step));
  Trial run;
  run.arguments = {buffer(std::vector<int64_t>(2, -1)),   random_buffer(ElementType::kF32, 8 * 12, 3, false),
                   buffer(std::vector<float>(8, -1)),     scalar_bits(bits_of(type, range.start)),
                   scalar_bits(bits_of(type, range.end)), scalar_bits(bits_of(type, range.step))};
  run.match = {1e-5, 1e-5, true};
  expect_same(loop_text(type, is_constant ? std::optional(range) : std::nullopt, stages), run);
}

// The number of iterations is above 0 and ends, whatever lies behind the end.
TEST(LoopRange, EndsAtTheTopOfItsType) {
  for (ElementType type : kIndexTypes) {
    const Wide low = dsl::lowest(type), high = dsl::highest(type);
    for (const Range& range : {Range{high - 9, high, 7},
                               {high - 1, high, high},
                               {low, low + 1, high},
                               {low, high, high},
                               {high, high, 1},
                               {high, low, 1},
                               {high - 3, high, 1}}) {
      expect_loop(type, range, false, 1);
    }
  }
}

// From 0 to 2^63 + 1 by 2^62, and across 2^63: not as signed numbers.
TEST(LoopRange, UnsignedBoundsAboveTheSignedRange) {
  for (ElementType type : {ElementType::kU8, ElementType::kU16, ElementType::kU32, ElementType::kU64}) {
    const Wide half = dsl::highest(type) / 2 + 1;
    for (const Range& range : {Range{0, half + 1, half / 2},
                               {half - 2, half + 2, 1},
                               {0, half, half},
                               {half, half - 1, 1},
                               {half, half + 3, half + 1}}) {
      for (bool is_constant : {false, true}) expect_loop(type, range, is_constant, 1);
    }
  }
}

// Copies ahead of the last iteration are none.
TEST(LoopRange, StagesNearTheEnds) {
  for (ElementType type : {ElementType::kI32, ElementType::kI64, ElementType::kU32, ElementType::kU64}) {
    const Wide low = dsl::lowest(type), high = dsl::highest(type);
    for (const Range& range : {Range{high - 9, high, 2}, {low, low + 3, 1}, {high - 1, high, high / 2}}) {
      expect_loop(type, range, false, 3);
    }
  }
}

TEST(LoopRange, RandomBounds) {
  std::mt19937_64 random(7);
  const auto pick = [&](uint64_t below) { return static_cast<Wide>(random() % below); };
  for (int i = 0; i < 48; ++i) {
    const ElementType type = kIndexTypes[random() % std::size(kIndexTypes)];
    const Wide low = dsl::lowest(type), high = dsl::highest(type), middle = low + (high - low) / 2;
    const Wide places[] = {low, Wide{0}, middle, high};
    const Wide step = 1 + (pick(2) ? pick(4) : pick(static_cast<uint64_t>(std::min<Wide>(high / 3, INT64_MAX))));
    const Wide start = std::clamp(places[random() % 4] + pick(5) - 2 - (pick(2) ? step * pick(9) : 0), low, high);
    const Wide end = std::clamp(start + step * pick(11) + pick(3) - 1, low, high);
    expect_loop(type, {start, end, step}, pick(3) == 0, 1 + static_cast<int>(pick(3)));
  }
}

}  // namespace
}  // namespace kiln::test
