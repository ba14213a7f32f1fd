// Every op of the table on every element type, executed on gfx942, gfx1100 and gfx1250: random kernels, of odd shapes,
// so chosen that each op is in one of them, and with KILN_TEST_ALL each op and type that the generator brings together.
// Kinds, functions and conversions are the affair of the tests of each op.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "differential.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/walk.h"
#include "random_cases.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::OpCode;
using random_kernel::Case;
using Uses = std::set<std::pair<OpCode, dsl::ElementType>>;

constexpr uint32_t kSeeds = 150;

Uses uses_of(const dsl::Kernel& kernel) {
  Uses out;
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    for (const dsl::ValueId id : op.operands) out.emplace(op.code, kernel.type(id).element);
    for (const dsl::ValueId id : op.results) out.emplace(op.code, kernel.type(id).element);
    if (op.operands.empty() && op.results.empty()) out.emplace(op.code, dsl::ElementType::kI1);
  });
  return out;
}

class AmdOps : public testing::TestWithParam<const char*> {};

TEST_P(AmdOps, EachIsExecutedOnEachTypeAndAgreesWithTheInterpreter) {
  Uses executed;
  std::set<OpCode> ops;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    const Case test = random_kernel::generate(seed);
    const Uses uses = uses_of(dsl::canonicalise(test.kernel));  // what a backend sees
    if (std::includes(executed.begin(), executed.end(), uses.begin(), uses.end())) continue;
    const bool has_new_op = std::ranges::any_of(uses, [&](const auto& use) { return !ops.contains(use.first); });
    if (!is_sampled(4) && !has_new_op) continue;
    const Ran ran = run_case(test, GetParam());
    EXPECT_EQ(ran.wrong, "") << "seed " << seed << "\n" << random_kernel::reproducer(test);
    if (ran.is_refused) continue;
    executed.insert(uses.begin(), uses.end());
    for (const auto& [op, type] : uses) ops.insert(op);
  }
  for (const dsl::OpInfo& op : dsl::op_table()) {
    EXPECT_TRUE(op.code == OpCode::kInlineAsm || ops.contains(op.code)) << op.name << " was not executed";
  }
}

// The interpreter has no assembly.
TEST_P(AmdOps, AssemblyOfTheTargetIsExecuted) {
  TextKernel k("%x: ptr<i32> readonly, %y: ptr<i32>");
  const std::string x = k.op("load " + k.pointers("%x", {100}));
  const std::string negated =
      k.op("inline_asm " + x + R"( {text = "v_not_b32 $0, $1", constraints = "=v,v", type = i32})");
  k.line("store " + k.pointers("%y", {100}) + ", " + negated);
  const dsl::Kernel kernel = parse_kernel(k.text());
  std::vector<TestArgument> arguments = {random_buffer(dsl::ElementType::kI32, 100, 1),
                                         random_buffer(dsl::ElementType::kI32, 100, 2)};
  const auto artifact = compile(kernel, {}, {}, GetParam());
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const auto ran = run_compiled(kernel, *artifact, arguments);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  std::vector<int32_t> expected = values_of<int32_t>(arguments[0]);
  for (int32_t& value : expected) value = ~value;
  EXPECT_EQ(values_of<int32_t>(arguments[1]), expected);
}

INSTANTIATE_TEST_SUITE_P(Processors, AmdOps, testing::Values("amd:gfx942", "amd:gfx1100", "amd:gfx1250"),
                         [](const auto& info) { return std::string(info.param).substr(4); });

// A scalar that goes from lane to lane, as 16 bits.
TEST(AmdLanes, TakeScalars) {
  TextKernel k("%x: i16, %y: ptr<i16>");
  k.line("store " + k.pointers("%y", {4}) + ", " + k.op("scan " + k.splat("%x", {4}) + " {kind = max, axis = 0}"));
  for (const char* target : {"amd:gfx942", "amd:gfx1100", "amd:gfx1200", "amd:gfx1250"}) {
    expect_same(k.text(), {{int_scalar(-7), random_buffer(dsl::ElementType::kI16, 4, 1)}, kExact, {target}});
  }
}

}  // namespace
}  // namespace kiln::test
