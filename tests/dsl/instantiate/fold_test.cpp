// What instantiation makes of control flow on constants, and the pass behind the option fuse_precision: IR before and
// after.
#include "kiln/dsl/instantiate.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

// The instantiated kernel's ops as text, or the first line of the error.
std::string body_of(const std::string& text, const ConstexprValues& values) {
  auto kernel = instantiate(parsed(text), values, {});
  if (!kernel) return first_line(kernel);
  EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel).error().message;
  const std::string printed = print(*kernel);
  return printed.substr(printed.find("\n\n") + 2);
}

constexpr const char* kChoice =
    "kernel k(%p: ptr<f32>, %x: f32) { constexpr FAST\n"
    "%f = constant {value = FAST, type = i1}\n"
    "%r = if %f { %a = add %x, %x yield %a } else { %b = mul %x, %x yield %b }\n"
    "store %p, %r }";

TEST(FoldIf, AKnownConditionLeavesOneBranch) {
  EXPECT_EQ(body_of(kChoice, {{"FAST", 1}}), "  %a = add %x, %x : f32\n  store %p, %a\n}\n");
  EXPECT_EQ(body_of(kChoice, {{"FAST", 0}}), "  %b = mul %x, %x : f32\n  store %p, %b\n}\n");
}

TEST(FoldIf, AConditionKnownAtLaunchStays) {
  EXPECT_EQ(body_of("kernel k(%p: ptr<f32>, %x: f32, %f: i1) {\n"
                    "%r = if %f { %a = add %x, %x yield %a } else { yield %x }\nstore %p, %r }",
                    {}),
            "  %r = if %f : f32 {\n    %a = add %x, %x : f32\n    yield %a\n  } else {\n    yield %x\n  }\n"
            "  store %p, %r\n}\n");
}

// A branch that is not taken is never looked at: here 24 elements cannot become [3, B] when B is 16.
constexpr const char* kIllShaped =
    "kernel k(%p: ptr<f32>, %x: f32) { constexpr B\n"
    "%t = splat %x {shape = [24]}\n"
    "%f = constant {value = eq(B, 8), type = i1}\n"
    "%r = if %f {\n%m = reshape %t {shape = [3, B]} %s = reduce %m {kind = sum, axis = 1} %a = reduce %s {kind = max, "
    "axis = 0} yield %a } else { yield %x }\n"
    "store %p, %r }";

TEST(FoldIf, AnUntakenBranchMayBeIllShaped) {
  EXPECT_EQ(body_of(kIllShaped, {{"B", 16}}), "  store %p, %x\n}\n");
  EXPECT_NE(body_of(kIllShaped, {{"B", 8}}).find("reshape %t {shape = [3, 8]}"), std::string::npos);
  std::string taken = kIllShaped;
  taken.replace(taken.find("eq(B, 8)"), 8, "eq(B, B)");
  EXPECT_EQ(body_of(taken, {{"B", 16}}),
            "k.kiln:5:1: error: reshape: the shape has 48 elements, not 24 (operands: tile<[24], f32>) (config B=16)");
}

TEST(FoldIf, ARequireInAnUntakenBranchIsNotAsked) {
  const std::string text =
      "kernel k(%p: ptr<f32>, %x: f32) { constexpr B\n%f = constant {value = lt(B, 4), type = i1}\n"
      "if %f {\nrequire {cond = 0, message = \"too small\"} yield }\nstore %p, %x }";
  EXPECT_EQ(body_of(text, {{"B", 4}}), "  store %p, %x\n}\n");
  EXPECT_EQ(body_of(text, {{"B", 3}}), "k.kiln:4:1: error: require: too small (config B=3)");
}

// Nested: what a folded branch yields goes on into the next decision's branch, and out of it.
TEST(FoldIf, FoldsInsideOfWhatItFolded) {
  const std::string text =
      "kernel k(%p: ptr<f32>, %x: f32) { constexpr A constexpr B\n"
      "%a = constant {value = A, type = i1} %b = constant {value = B, type = i1}\n"
      "%r = if %a { %y = neg %x %s = if %b { yield %y } else { %z = abs %y yield %z } yield %s } else { yield %x }\n"
      "store %p, %r }";
  EXPECT_EQ(body_of(text, {{"A", 1}, {"B", 1}}), "  %y = neg %x : f32\n  store %p, %y\n}\n");
  EXPECT_EQ(body_of(text, {{"A", 1}, {"B", 0}}), "  %y = neg %x : f32\n  %z = abs %y : f32\n  store %p, %z\n}\n");
  EXPECT_EQ(body_of(text, {{"A", 0}, {"B", 1}}), "  store %p, %x\n}\n");
}

constexpr const char* kLoop =
    "kernel k(%p: ptr<f32>, %x: f32) { constexpr END\n"
    "%lo = constant {value = 2, type = i32} %hi = constant {value = END, type = i32} %st = constant {value = 3, type = "
    "i32}\n"
    "%r = for %i = %lo to %hi step %st carry (%a = %x) { %f = cast %i {to = f32} %b = add %a, %f yield %b }\n"
    "store %p, %r }";

TEST(FoldFor, ALoopThatNeverRunsIsItsInits) {
  EXPECT_EQ(body_of(kLoop, {{"END", 2}}), "  store %p, %x\n}\n");
  EXPECT_EQ(body_of(kLoop, {{"END", -7}}), "  store %p, %x\n}\n");
}

TEST(FoldFor, ALoopThatRunsOnceIsItsBody) {
  for (int64_t end : {3, 4, 5}) {
    EXPECT_EQ(body_of(kLoop, {{"END", end}}),
              "  %lo = constant {value = 2, type = i32} : i32\n"
              "  %f = cast %lo {to = f32} : f32\n"
              "  %b = add %x, %f : f32\n"
              "  store %p, %b\n}\n");
  }
}

TEST(FoldFor, ALoopThatRunsTwiceStays) {
  EXPECT_NE(body_of(kLoop, {{"END", 6}}).find("%r = for %i = %lo to %hi step %st"), std::string::npos);
}

TEST(FoldFor, AStepBelowOneIsAnError) {
  EXPECT_EQ(body_of("kernel k(%p: ptr<f32>, %x: f32) { constexpr STEP\n"
                    "%lo = constant {value = 2, type = i32} %st = constant {value = STEP, type = i32}\n"
                    "for %i = %lo to %lo step %st { yield }\nstore %p, %x }",
                    {{"STEP", 0}}),
            "k.kiln:3:1: error: for: step is 0, must be 1 or more (config STEP=0)");
}

TEST(Instantiate, AGridBelowOneNamesAxisAndConfigAndOneOfFactsMayBeEmpty) {
  EXPECT_EQ(body_of("kernel k(%p: ptr<f32>, %x: f32) { constexpr B grid [2, div(B, 2)] store %p, %x }", {{"B", 1}}),
            "kernel `k`: grid axis 1 is 0; it must be 1 or more (config B=1)");
  auto by_fact = [](const std::string& extent) {
    return instantiate(parsed("kernel k(%p: ptr<f32>, %n: i32, %x: f32) { grid [" + extent + "] store %p, %x }"), {},
                       {ParamFact::kNone, ParamFact::kOne});
  };
  EXPECT_TRUE(by_fact("div(n, 2)").ok());
  EXPECT_EQ(first_line(by_fact("n - 2")), "kernel `k`: grid axis 0 is -1; it must be 0 or more");
}

// Extents that were undecided while the kernel was traced.
TEST(Instantiate, UndecidedShapesAreDecided) {
  const std::string text =
      "kernel k(%p: ptr<f32>, %f: f32) {\nconstexpr BM constexpr BN\n"
      "%x = splat %f {shape = [BM]} %y = splat %f {shape = [BN]}\n%z = add %x, %y\n"
      "%r = reduce %z {kind = max, axis = 0} store %p, %r }";
  EXPECT_NE(body_of(text, {{"BM", 8}, {"BN", 8}}).find("%z = add %x, %y : tile<[8], f32>"), std::string::npos);
  EXPECT_EQ(body_of(text, {{"BM", 8}, {"BN", 4}}),
            "k.kiln:4:1: error: add: operands have different shapes; broadcast one of them (operands: tile<[8], f32>, "
            "tile<[4], f32>) (config BM=8, BN=4)");
  const std::string carried =
      "kernel k(%p: ptr<f32>, %f: f32, %n: i32) {\nconstexpr BM constexpr BN\n"
      "%x = splat %f {shape = [BM]} %y = splat %f {shape = [BN]}\n"
      "%r = for %i = %n to %n step %n carry (%a = %x) {\nyield %y }\n"
      "%s = reduce %r {kind = max, axis = 0} store %p, %s }";
  EXPECT_NE(body_of(carried, {{"BM", 8}, {"BN", 8}}).find("tile<[8], f32>"), std::string::npos);
  EXPECT_EQ(
      body_of(carried, {{"BM", 8}, {"BN", 4}}),
      "k.kiln:5:1: error: yield: value 0 is tile<[4], f32>, but this region of `for` yields tile<[8], f32> (config "
      "BM=8, BN=4)");
}

std::string fused(const std::string& ops) {
  return body_of(
      "kernel k(%p: ptr<bf16>, %q: ptr<i1>, %a: bf16, %b: bf16, %c: bf16) { option fuse_precision = true "
      "option contract = false\n" +
          ops + " }",
      {});
}

TEST(FusePrecision, AChainRoundsWhereItEnds) {
  EXPECT_EQ(fused("%m = mul %a, %b %s = add %m, %c store %p, %s"),
            "  %0 = cast %a {to = f32} : f32\n"
            "  %1 = cast %b {to = f32} : f32\n"
            "  %2 = mul %0, %1 : f32\n"
            "  %3 = cast %c {to = f32} : f32\n"
            "  %4 = add %2, %3 : f32\n"
            "  %s = cast %4 {to = bf16} : bf16\n"
            "  store %p, %s\n}\n");
}

TEST(FusePrecision, AnAuthorsCastRounds) {
  EXPECT_EQ(fused("%m = neg %a %w = cast %m {to = f16} %v = cast %w {to = bf16} %s = abs %v store %p, %s"),
            "  %0 = cast %a {to = f32} : f32\n"
            "  %1 = neg %0 : f32\n"
            "  %m = cast %1 {to = bf16} : bf16\n"
            "  %w = cast %m {to = f16} : f16\n"
            "  %v = cast %w {to = bf16} : bf16\n"
            "  %2 = cast %v {to = f32} : f32\n"
            "  %3 = abs %2 : f32\n"
            "  %s = cast %3 {to = bf16} : bf16\n"
            "  store %p, %s\n}\n");
}

TEST(FusePrecision, TestsOfFloatsReadTheWideValue) {
  EXPECT_EQ(fused("%m = mul %a, %b %t = math %m {fn = isinf} store %q, %t"),
            "  %0 = cast %a {to = f32} : f32\n"
            "  %1 = cast %b {to = f32} : f32\n"
            "  %2 = mul %0, %1 : f32\n"
            "  %t = math %2 {fn = isinf} : i1\n"
            "  store %q, %t\n}\n");
}

// After it, and so before contraction, such a product is an f32 one.
TEST(FusePrecision, AProductOfSmallFloatsIsContracted) {
  const std::string body = body_of(
      "kernel k(%p: ptr<f16>, %a: f16, %b: f16, %c: f16) { option fuse_precision = true\n"
      "%m = mul %a, %b %s = add %m, %c store %p, %s }",
      {});
  EXPECT_NE(body.find(" = fma "), std::string::npos) << body;
  EXPECT_EQ(body.find(" = mul "), std::string::npos) << body;
}

}  // namespace
}  // namespace kiln::dsl::testing
