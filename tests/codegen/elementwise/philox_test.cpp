// philox of tiles: its words on every target, and that its rounds are emitted once for all who want a word.
#include <sstream>

#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

// The words of seeds and offsets of a shape, stored one behind the other. `seed`: of each element, or one for all.
std::string words_of(const TextKernel::Shape& shape, bool seed_varies) {
  TextKernel kernel("%seed: u64, %base: u64, %o: ptr<u32>");
  const std::string lane = kernel.op("cast " + kernel.index(shape) + " {to = u64}");
  std::string seed = kernel.splat("%seed", shape);
  if (seed_varies) seed = kernel.op("mul " + seed + ", " + lane);
  const std::string offset = kernel.op("sub " + kernel.splat("%base", shape) + ", " + lane);
  kernel.line("%w0, %w1, %w2, %w3 = philox " + seed + ", " + offset);
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  for (int word = 0; word < 4; ++word) {
    kernel.line("store " + kernel.pointers("%o", shape, word * count) + ", %w" + std::to_string(word));
  }
  return kernel.text();
}

TEST(PhiloxOnCpu, WordsOfAnyShape) {
  for (const TextKernel::Shape& shape : std::vector<TextKernel::Shape>{{1}, {5}, {64}, {101}, {3, 19}, {33, 2}}) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    for (bool seed_varies : {false, true}) {
      Trial run;
      run.arguments = {scalar_bits(0x9e3779b97f4a7c15), scalar_bits(0x100000010),
                       random_buffer(ElementType::kU32, static_cast<size_t>(4 * count), 1)};
      expect_same(words_of(shape, seed_varies), run);
    }
  }
}

// In a loop, reduced, and compared.
TEST(PhiloxOnCpu, WordsInsideARegion) {
  TextKernel kernel("%seed: u64, %o: ptr<u32>");
  const std::string zero = kernel.constant("0", "i32"), one = kernel.constant("1", "i32");
  const std::string five = kernel.constant("5", "i32"), none = kernel.constant("0", "u32");
  const std::string lane = kernel.op("cast " + kernel.index({100}) + " {to = u64}");
  kernel.line("%all = for %i = " + zero + " to " + five + " step " + one + " carry (%sum = " + none + R"() {
    %wide = cast %i {to = u64}
    %s = splat %wide {shape = [100]}
    %k = splat %seed {shape = [100]}
    %at = mul %s, )" +
              lane + R"(
    %a, %b, %c, %d = philox %k, %at
    %x = xor %a, %d
    %part = reduce %x {kind = sum, axis = 0}
    %next = add %sum, %part
    yield %next
  })");
  kernel.line("store %o, %all");
  Trial run;
  run.arguments = {scalar_bits(42), random_buffer(ElementType::kU32, 1, 1)};
  expect_same(kernel.text(), run);
}

TEST(PhiloxOnCpu, RoundsAreEmittedOnceForAllWordsAndSinks) {
  TextKernel kernel("%seed: u64, %n: i32, %o: ptr<u32>");
  const TextKernel::Shape shape = {1024};
  const std::string lane = kernel.op("cast " + kernel.index(shape) + " {to = u64}");
  kernel.line("%w0, %w1, %w2, %w3 = philox " + kernel.splat("%seed", shape) + ", " + lane);
  for (int word = 0; word < 4; ++word) {
    const std::string to = kernel.pointers("%o", shape, 1024 * word), value = "%w" + std::to_string(word);
    kernel.line("store " + to + ", " + value + ", " + kernel.mask(shape, {"%n"}));
    kernel.line("store " + kernel.pointers("%o", shape, 8192 + 1024 * word) + ", " + kernel.op("neg " + value));
  }
  auto artifact = compile(parse_kernel(kernel.text()), {}, {}, "", "llvm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::istringstream text(std::string(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()));
  int products = 0;
  for (std::string line; std::getline(text, line);) {
    // The factor of the first word: one product a round.
    products += line.find(" mul ") != std::string::npos && line.find("3528531795") != std::string::npos;
  }
  EXPECT_EQ(products, 10);
}

}  // namespace
}  // namespace kiln::test
