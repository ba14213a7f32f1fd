// dot_scaled on every target against the interpreter.
#include <random>

#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

const char* name_of(ElementType type) { return dsl::info(type).name.data(); }

struct Format {
  ElementType type;
  bool packs_two() const { return type == ElementType::kU8; }
};

void check_scaled(Format a, Format b, int64_t m, int64_t n, int64_t k, bool extreme,
                  const std::vector<std::string>& targets = {}) {
  TextKernel kernel("%a: ptr<" + std::string(name_of(a.type)) + "> readonly, %s: ptr<u8> readonly, %b: ptr<" +
                    name_of(b.type) + "> readonly, %t: ptr<u8> readonly, %c: ptr<f32>");
  const int64_t ka = a.packs_two() ? k / 2 : k, kb = b.packs_two() ? k / 2 : k;
  auto load = [&](const char* param, const Shape& shape) { return kernel.op("load " + kernel.pointers(param, shape)); };
  const std::string c = kernel.pointers("%c", {m, n});
  const std::string operands = load("%a", {m, ka}) + ", " + load("%s", {m, k / 32}) + ", " + load("%b", {kb, n}) +
                               ", " + load("%t", {n, k / 32});
  kernel.line("store " + c + ", " + kernel.op("dot_scaled " + operands + ", " + kernel.op("load " + c)));
  std::mt19937 random(static_cast<uint32_t>(m * n * k));
  auto bytes = [&](int64_t count, auto make) {
    std::vector<uint8_t> out(static_cast<size_t>(count));
    for (uint8_t& x : out) x = static_cast<uint8_t>(make());
    return buffer(out);
  };
  // Finite numbers of either format: the exponent's highest bit is clear.
  auto element = [&] { return random() & 0xbf; };
  // Extreme ones: those of A overflow f32 by themselves, those of B bring the sums back.
  auto scale = [&](uint32_t first, uint32_t count) {
    return [&, first, count]() -> uint32_t {
      if (extreme && random() % 8 == 0) return 0xff;
      return extreme ? first + random() % count : 120 + random() % 16;
    };
  };
  Trial run;
  run.arguments = {bytes(m * ka, element), bytes(m * (k / 32), scale(100, 155)), bytes(kb * n, element),
                   bytes(n * (k / 32), scale(0, 100)),
                   random_buffer(ElementType::kF32, static_cast<size_t>(m * n), 7, false)};
  // The interpreter rounds each sum to f32; sums of large numbers of both signs lose what is small.
  run.match = extreme ? Match{1e-4, 0, true} : Match{1e-5, 1e-2, true};
  if (!targets.empty()) run.targets = targets;
  expect_same(kernel.text(), run);
}

TEST(DotScaled, TakesEveryPairOfFormats) {
  const Format formats[] = {{ElementType::kU8}, {ElementType::kF8E4M3}, {ElementType::kF8E5M2}};
  for (Format a : formats) {
    for (Format b : formats) check_scaled(a, b, 5, 19, 64, false);
  }
}

TEST(DotScaled, TakesOddExtents) {
  check_scaled({ElementType::kU8}, {ElementType::kU8}, 1, 1, 32, false);
  check_scaled({ElementType::kF8E4M3}, {ElementType::kF8E4M3}, 17, 33, 96, false);
  check_scaled({ElementType::kU8}, {ElementType::kF8E5M2}, 33, 64, 128, false);
}

// One product a sum: scales from 2^-127 to 2^127 and NaN.
TEST(DotScaled, TakesScalesOfAnySize) { check_scaled({ElementType::kU8}, {ElementType::kF8E4M3}, 7, 9, 32, true); }

// Where the target scales by itself: tiles of whole instructions, smaller and larger ones, and inner axes that these do
// not cover.
TEST(DotScaled, IsTheSameByInstructionsThatScale) {
  std::vector<std::string> targets = {"gpu:like=sm_120a", "gpu:like=sm_120a,warps=4"};
#ifdef KILN_AMDGCN
  targets.emplace_back("amd:gfx950");
  targets.emplace_back("amd:gfx1250");
#endif
  const Format formats[] = {{ElementType::kU8}, {ElementType::kF8E4M3}, {ElementType::kF8E5M2}};
  for (Format a : formats) {
    for (Format b : formats) check_scaled(a, b, 16, 16, 128, false, targets);
  }
  const Format e4m3{ElementType::kF8E4M3}, e5m2{ElementType::kF8E5M2};
  check_scaled(e4m3, e5m2, 64, 32, 256, false, targets);
  check_scaled(e5m2, e4m3, 7, 9, 512, false, targets);
  check_scaled(e4m3, e4m3, 64, 64, 32, false, targets);
  check_scaled(e4m3, e5m2, 32, 16, 160, false, targets);
  check_scaled(e4m3, e4m3, 16, 8, 32, true, targets);
}

}  // namespace
}  // namespace kiln::test
