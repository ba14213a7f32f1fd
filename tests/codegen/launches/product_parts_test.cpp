// Products that split_k and stream_k cut along K into parts: of a single row or column, and in loops whose index comes
// near the ends of its type. Against the interpreter on all targets.
#include "kiln/dsl/wide.h"
#include "launch_harness.h"
#include "small_numbers.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using dsl::Wide;
using Shape = TextKernel::Shape;

struct Cut {
  Shape out;
  int64_t k = 1, turns = 2;
  ElementType index = ElementType::kI32;
  Wide start = 0, step = 1;
};

// One block of K a turn, turns blocks of A and B one behind the other; the last index may be the type's highest.
std::string cut_text(const Cut& cut) {
  const std::string index(dsl::info(cut.index).name);
  Shape a = cut.out, b = cut.out;
  a.back() = b[b.size() - 2] = cut.k;
  TextKernel k("%A: ptr<f32> readonly, %B: ptr<f32> readonly, %C: ptr<f32>, %lo: " + index + ", %hi: " + index);
  const auto step = dsl::info(cut.index).is_signed ? std::to_string(static_cast<int64_t>(cut.step))
                                                   : std::to_string(static_cast<uint64_t>(cut.step));
  const std::string by = k.constant(step, index), zero = k.fill("0.0", "f32", cut.out);
  const std::string type = "tile<" + TextKernel::list(cut.out) + ", f32>",
                    wide = cut.index == ElementType::kU64 ? "u64" : "i64";
  k.line("%sum = for %k = %lo to %hi step " + by + " carry (%acc = " + zero + ") : " + type + " {");
  const auto widened = [&](const std::string& x) {
    return wide == index ? x : k.op("cast " + x + " {to = " + wide + "}");
  };
  const std::string turn = k.op("div " + k.op("sub " + widened("%k") + ", " + widened("%lo")) + ", " + widened(by));
  const auto block = [&](const std::string& param, const Shape& shape) {
    const std::string first = k.op("mul " + turn + ", " + k.constant(std::to_string(elements(shape)), wide));
    return k.op("load " + k.pointers(k.op("addptr " + param + ", " + first), shape));
  };
  const std::string x = block("%A", a), y = block("%B", b);
  k.line("yield " + k.op("dot " + x + ", " + y + ", %acc") + "\n  }");
  k.line("store " + k.pointers("%C", cut.out) + ", %sum");
  return k.text();
}

void expect_cut(const Cut& cut, const dsl::ConstexprValues& config, std::mt19937_64& random) {
  const std::string text = cut_text(cut);
  SCOPED_TRACE(text);
  const Wide end = std::min(cut.start + cut.step * cut.turns, dsl::highest(cut.index));
  Shape a = cut.out, b = cut.out;
  a.back() = b[b.size() - 2] = cut.k * cut.turns;
  LaunchTrial trial;
  trial.arguments = {
      small_numbers(ElementType::kF32, elements(a), random), small_numbers(ElementType::kF32, elements(b), random),
      random_buffer(ElementType::kF32, static_cast<size_t>(elements(cut.out)), 3, false),
      scalar_bits(dsl::bits_from_number(cut.index, cut.start)), scalar_bits(dsl::bits_from_number(cut.index, end))};
  trial.match = {0, 0, true};
  trial.config = config;
  if (elements(cut.out) > 1000) trial.compiled = {""};  // AMD's machine code is emulated
  expect_as_interpreted(parse_kernel(text), trial);
}

const dsl::ConstexprValues kParts[] = {{{"split_k", 2}}, {{"stream_k", 2}}, {{"split_k", 3}}, {{"stream_k", 3}}};

// A single place along any axis of the result.
TEST(CutProduct, ResultsOfOneRowAreCutAlongK) {
  std::mt19937_64 random(3);
  for (const Shape& out : {Shape{1, 4}, {4, 1}, {1, 1}, {1, 1, 4}, {1, 4, 1}, {2, 1, 3}, {1, 4096}}) {
    for (const auto& config : {kParts[0], kParts[1]}) expect_cut({.out = out}, config, random);
  }
}

// Of a single row programs of their own add up columns.
TEST(CutProduct, TheLastStageOfALongRowIsCut) {
  for (const Shape& out : {Shape{1, 4096}, {1, 1, 4096}}) {
    EXPECT_EQ(chunks_of(gpu_launches(parse_kernel(cut_text({.out = out})), kParts[0])), (std::vector<int64_t>{2, 2}));
  }
  EXPECT_EQ(chunks_of(gpu_launches(parse_kernel(cut_text({.out = {1, 4}})), kParts[0])), (std::vector<int64_t>{2, 1}));
}

// Parts of loops whose index comes near the end of its type, by steps that would leave it.
TEST(CutProduct, PartsOfLoopsNearTheEndsOfTheirType) {
  std::mt19937_64 random(4);
  for (ElementType type : {ElementType::kI8, ElementType::kI32, ElementType::kI64, ElementType::kU16, ElementType::kU32,
                           ElementType::kU64}) {
    const Wide low = dsl::lowest(type), high = dsl::highest(type);
    const Wide far = std::min<Wide>(high / 4, Wide{1} << 60);
    for (const Cut& cut : {Cut{{2, 3}, 1, 3, type, high - 15, 7}, Cut{{1, 3}, 2, 5, type, low, 1},
                           Cut{{2, 2}, 1, 4, type, high - 3 * far - 1, far}}) {
      expect_cut(cut, kParts[random() % std::size(kParts)], random);
    }
  }
}

TEST(CutProduct, RandomCutsAlongK) {
  std::mt19937_64 random(5);
  const auto any = [&](const std::vector<int64_t>& of) { return of[random() % of.size()]; };
  const ElementType types[] = {ElementType::kI8, ElementType::kI16, ElementType::kI32, ElementType::kI64,
                               ElementType::kU8, ElementType::kU16, ElementType::kU32, ElementType::kU64};
  for (int i = 0; i < 16; ++i) {
    Cut cut{{any({1, 1, 2, 3, 16}), any({1, 1, 2, 3, 16})}, any({1, 2, 3, 8}), any({0, 1, 2, 3, 7})};
    if (random() % 4 == 0) cut.out.insert(cut.out.begin(), any({1, 2}));
    cut.index = types[random() % std::size(types)];
    cut.step = any({1, 2, 5});
    if (random() % 2 == 0) cut.start = dsl::highest(cut.index) - cut.step * cut.turns + (random() % 2 ? 1 : 0);
    expect_cut(cut, kParts[random() % std::size(kParts)], random);
  }
}

}  // namespace
}  // namespace kiln::test
