// The canonical order: the same program gives the same bytes.
#include "kiln/dsl/canonical.h"

#include <gtest/gtest.h>

#include "kiln/dsl/binary.h"
#include "random/random_kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

std::vector<std::byte> key_bytes(const Kernel& kernel) {
  ConstexprValues values;
  if (kernel.find_constexpr("S")) values["S"] = 3;
  auto bytes = encode_request({kernel, "cpu:test", values, {}});
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes ? bytes->canonical : std::vector<std::byte>{};
}

TEST(Canonical, ShufflesOfOneKernelGiveTheSameBytes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Kernel kernel = RandomKernel(seed).make();
    ASSERT_TRUE(verify(kernel).ok()) << verify(kernel).error().message;
    const auto wanted = key_bytes(kernel);
    for (uint32_t order = 0; order < 8; ++order) {
      const Kernel other = shuffled(kernel, seed * 100 + order);
      ASSERT_TRUE(verify(other).ok()) << verify(other).error().message;
      ASSERT_EQ(key_bytes(other), wanted) << "seed " << seed << "\n"
                                          << print(canonicalise(kernel)) << print(canonicalise(other));
    }
  }
}

TEST(Canonical, IsIdempotentAndVerifies) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Kernel once = canonicalise(RandomKernel(seed).make());
    EXPECT_TRUE(verify(once).ok()) << verify(once).error().message;
    EXPECT_EQ(print(canonicalise(once)), print(once));
  }
}

// Ops of the canonical kernel, by name.
std::string ops_of(const std::string& body) {
  const Kernel kernel = canonicalise(parsed("kernel k(%p: ptr<f32>, %q: ptr<f32>, %n: i32) {\n" + body + "\n}"));
  std::string out;
  for (const Op& op : kernel.body.ops) {
    out += (out.empty() ? "" : " ") + info(op.code).name;
    for (ValueId id : op.results) out += ":" + kernel.values[id].name;
  }
  return out;
}

TEST(Canonical, DeadOpsLoadsAndLoopsGo) {
  EXPECT_EQ(ops_of("%a = load %p  %b = add %a, %a  %c = load %q  store %p, %c"), "load:c store");
  EXPECT_EQ(ops_of("%z = constant {value = 0, type = i32} %o = constant {value = 1, type = i32} %f = load %p\n"
                   "%r = for %k = %z to %n step %o carry (%a = %f) { %b = add %a, %a yield %b }"),
            "");
}

TEST(Canonical, EffectsKeepProgramOrder) {
  EXPECT_EQ(ops_of("%a = load %p  store %q, %a  assume %n {multiple_of = 2}  store %p, %a"),
            "load:a store assume store");
}

TEST(Canonical, ALoadStaysBetweenTheStoresThatSurroundIt) {
  // Both loads are wanted by the last store only, yet the first reads what was there before the first store.
  EXPECT_EQ(ops_of("%c = constant {value = 1.0, type = f32}  %a = load %p  store %p, %c  %b = load %p\n"
                   "%s = add %b, %a  store %q, %s"),
            "constant:c load:a store load:b add:s store");
}

TEST(Canonical, LoopsThatReadArePinnedLikeLoads) {
  EXPECT_EQ(ops_of("%z = constant {value = 0, type = i32} %o = constant {value = 1, type = i32}\n"
                   "%c = constant {value = 1.0, type = f32}\n"
                   "%r = for %k = %z to %n step %o carry (%a = %c) { %l = load %p %b = add %a, %l yield %b }\n"
                   "store %p, %c  store %q, %r"),
            "constant:c constant:z constant:o for:r store store");
}

TEST(Canonical, ValuesAreNumberedByDefinition) {
  const Kernel kernel = canonicalise(golden("matmul"));
  ValueId next = static_cast<ValueId>(kernel.params.size());
  std::function<void(const Region&)> visit = [&](const Region& region) {
    for (const Op& op : region.ops) {
      for (ValueId id : op.results) EXPECT_EQ(id, next++);
      for (const Region& inner : op.regions) {
        for (ValueId id : inner.args) EXPECT_EQ(id, next++);
        visit(inner);
      }
    }
  };
  visit(kernel.body);
  EXPECT_EQ(next, kernel.values.size());
}

TEST(Canonical, AKnownConstantIsALiteral) {
  Kernel kernel = parsed("kernel k(%p: ptr<f32>) { %c = constant {value = 2.0, type = f32} store %p, %c }");
  const auto literal = key_bytes(kernel);
  kernel.body.ops[0].attrs[0] = Expr(2);
  EXPECT_EQ(key_bytes(kernel), literal);
}

TEST(Canonical, LongChainsDoNotExhaustTheStack) {
  std::string body = "%v0 = load %p\n";
  for (int i = 0; i < 200000; ++i) body += "%v" + std::to_string(i + 1) + " = neg %v" + std::to_string(i) + "\n";
  auto kernel = parse("kernel k(%p: ptr<f32>) {\n" + body + "store %p, %v200000\n}", "k.kiln");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(canonicalise(*kernel).body.ops.size(), 200002u);
}

}  // namespace
}  // namespace kiln::dsl::testing
