// The generator: what it makes is a kernel, covers the language, and means something.
#include "random/generator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "random/facts.h"
#include "random/random_kernel.h"
#include "sampled.h"

namespace kiln::random_kernel {
namespace {

using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;
using dsl::Region;

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

uint32_t kernels() { return number_from("KILN_RANDOM_KERNELS", test::runs_all_cases() ? 250 : 120); }
uint32_t first_seed() { return number_from("KILN_RANDOM_SEED", 1); }

std::string text_of(const Case& test) { return reproducer(test); }

TEST(Generator, HasAFunctionForEveryOpOrAReason) {
  for (const dsl::OpInfo& op : dsl::op_table()) {
    const auto reason = never_generated().find(op.code);
    EXPECT_NE(is_generated(op.code), reason != never_generated().end()) << op.name;
  }
}

TEST(Generator, IsDeterministic) {
  std::set<std::string> different;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const std::string first = text_of(generate(seed));
    EXPECT_EQ(text_of(generate(seed)), first);
    different.insert(first);
  }
  EXPECT_EQ(different.size(), 40u);
}

std::vector<std::byte> key(const Kernel& kernel, const Case& test) {
  auto bytes = dsl::encode_request({kernel, "cpu:test", test.config, test.facts});
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes ? bytes->canonical : std::vector<std::byte>{};
}

TEST(Generator, KernelsVerifyAndSurviveTextAndBytes) {
  for (uint32_t seed = first_seed(); seed < first_seed() + kernels(); ++seed) {
    const Case test = generate(seed);
    const Kernel& kernel = test.kernel;
    const std::string text = dsl::print(kernel);
    auto verified = dsl::verify(kernel);
    ASSERT_TRUE(verified.ok()) << "seed " << seed << ": " << verified.error().message << text;
    auto parsed = dsl::parse(text, "random.kiln");
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << ": " << parsed.error().message << text;
    ASSERT_EQ(dsl::print(*parsed), text) << "seed " << seed;
    auto verified_again = dsl::verify(*parsed);
    ASSERT_TRUE(verified_again.ok()) << "seed " << seed << ": " << verified_again.error().message << text;
    auto decoded = dsl::decode_kernel(dsl::encode_kernel(kernel));
    ASSERT_TRUE(decoded.ok()) << "seed " << seed << ": " << decoded.error().message << text;
    ASSERT_EQ(dsl::encode_kernel(*decoded), dsl::encode_kernel(kernel)) << "seed " << seed << text;
  }
}

TEST(Generator, KeysDoNotDependOnTheOrderOfIndependentOps) {
  for (uint32_t seed = first_seed(); seed < first_seed() + kernels(); ++seed) {
    const Case test = generate(seed);
    const Kernel once = dsl::canonicalise(test.kernel);
    ASSERT_EQ(dsl::print(dsl::canonicalise(once)), dsl::print(once)) << "seed " << seed;
    const auto wanted = key(test.kernel, test);
    ASSERT_EQ(key(once, test), wanted) << "seed " << seed;
    const Kernel other = dsl::testing::shuffled(test.kernel, seed);
    ASSERT_EQ(key(other, test), wanted) << "seed " << seed << "\n" << dsl::print(test.kernel);
  }
}

bool same(const std::vector<Input>& a, const std::vector<Input>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Input& x, const Input& y) { return x.buffer == y.buffer; });
}

TEST(Generator, KernelsInterpretTwiceAlikeWithoutMisuse) {
  for (uint32_t seed = first_seed(); seed < first_seed() + kernels(); ++seed) {
    const Case test = generate(seed);
    auto kernel = instantiated(test);
    ASSERT_TRUE(kernel.ok()) << "seed " << seed << ": " << kernel.error().message << dsl::print(test.kernel);
    auto facts = output_facts(test);
    ASSERT_TRUE(facts.ok()) << "seed " << seed << ": " << facts.error().message << dsl::print(test.kernel);
    auto first = interpreted(test);
    ASSERT_TRUE(first.ok()) << "seed " << seed << ": " << first.error().message << dsl::print(*kernel);
    auto second = interpreted(test);
    ASSERT_TRUE(second.ok());
    ASSERT_TRUE(same(*first, *second)) << "seed " << seed << dsl::print(*kernel);
    ASSERT_EQ(differences(test, *second, *first), "");
  }
}

struct Coverage {
  std::map<OpCode, int> ops;
  std::map<dsl::ElementType, int> stored, computed;
  std::set<int64_t> functions, reductions, ranks;
  int deepest = 0;

  void add(const Kernel& kernel, const Region& region, int depth) {
    deepest = std::max(deepest, depth);
    for (const Op& op : region.ops) {
      ++ops[op.code];
      if (op.code == OpCode::kMath) functions.insert(std::get<int64_t>(op.attrs[0]));
      if (op.code == OpCode::kReduce || op.code == OpCode::kScan) {
        reductions.insert(std::get<int64_t>(op.attrs[0]) + (op.code == OpCode::kScan ? 100 : 0));
      }
      if (op.code == OpCode::kStore) ++stored[kernel.type(op.operands[1]).element];
      for (const dsl::ValueId id : op.results) {
        ++computed[kernel.type(id).element];
        ranks.insert(kernel.type(id).rank());
      }
      for (const Region& inner : op.regions) add(kernel, inner, depth + 1);
    }
  }
};

TEST(Generator, CoversTheLanguage) {
  Coverage covered;
  const uint32_t count = std::max(kernels(), 300u);
  for (uint32_t seed = first_seed(); seed < first_seed() + count; ++seed) {
    // What survives canonicalisation is what a backend sees.
    const Kernel kernel = dsl::canonicalise(generate(seed).kernel);
    covered.add(kernel, kernel.body, 0);
  }
  for (const dsl::OpInfo& op : dsl::op_table()) {
    const int least = is_generated(op.code) ? 1 : 0;
    EXPECT_GE(covered.ops[op.code], least) << op.name;
  }
  for (uint8_t i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto type = static_cast<dsl::ElementType>(i);
    EXPECT_GT(covered.computed[type], 0) << dsl::info(type).name;
    EXPECT_GT(covered.stored[type], 0) << dsl::info(type).name;
  }
  EXPECT_EQ(covered.functions.size(), dsl::info(OpCode::kMath).attrs[0].values.size());
  EXPECT_EQ(covered.reductions.size(), 18u);  // ten of reduce, eight of scan
  EXPECT_EQ(covered.ranks.size(), 6u);
  EXPECT_GE(covered.deepest, 3);
  if (!std::getenv("KILN_RANDOM_VERBOSE")) return;
  for (const auto& [code, times] : covered.ops) std::printf("%-14s %d\n", dsl::info(code).name.c_str(), times);
}

TEST(Generator, KeepsToItsOptions) {
  Options options;
  options.symbolic = false;
  options.facts = false;
  options.max_rank = 2;
  options.max_depth = 1;
  options.elements = {dsl::ElementType::kF32, dsl::ElementType::kI32};
  options.allowed = [](const Kernel&, const Op& op) { return op.code != OpCode::kDot && op.code != OpCode::kSort; };
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    const Case test = generate(seed, options);
    Coverage covered;
    covered.add(test.kernel, test.kernel.body, 0);
    EXPECT_TRUE(test.kernel.constexprs.empty());
    EXPECT_TRUE(test.facts.empty());
    EXPECT_EQ(covered.ops[OpCode::kDot] + covered.ops[OpCode::kSort] + covered.ops[OpCode::kAssume], 0);
    EXPECT_LE(covered.deepest, 2);  // a region to combine with may lie in a loop
    EXPECT_LE(*covered.ranks.rbegin(), 2);
    EXPECT_EQ(covered.stored.count(dsl::ElementType::kF16), 0u);
  }
}

// What a comparison allows of a sum, in terms of what the unit keeps of it; none where all the sums have fewer bits.
TEST(Facts, SumsOfF8HaveAsManyBitsAsTheUnitKeeps) {
  const auto product = [](uint64_t element, int bits) {
    Case test = make_case(R"kiln(
kernel product(%x: ptr<f8e4m3> readonly, %out: ptr<f32>) {
  grid [1, 1, 1]
  %from = splat %x {shape = [1, 1]} : tile<[1, 1], ptr<f8e4m3>>
  %a = load %from : tile<[1, 1], f8e4m3>
  %zero = constant {value = 0.0, type = f32} : f32
  %none = splat %zero {shape = [1, 1]} : tile<[1, 1], f32>
  %sum = dot %a, %a, %none : tile<[1, 1], f32>
  %to = splat %out {shape = [1, 1]} : tile<[1, 1], ptr<f32>>
  store %to, %sum
}
)kiln",
                          {}, {}, {elements(dsl::ElementType::kF8E4M3, {element}), zeros(dsl::ElementType::kF32, 1)});
    test.f8_sum_bits = bits;
    return (*output_facts(test))[1];
  };
  const uint64_t half = 0x30, two = 0x40, most = 0x7e;  // most · most is 200704
  EXPECT_EQ(product(half, 14).level, Level::kNear);
  EXPECT_DOUBLE_EQ(product(half, 14).atol / product(half, 24).atol, 1024);
  EXPECT_EQ(product(two, 14).level, Level::kValue);
  EXPECT_EQ(product(most, 24).level, Level::kValue);
  EXPECT_EQ(product(most, 14).level, Level::kNear);
}

}  // namespace
}  // namespace kiln::random_kernel
