// Which instructions NVIDIA's targets take for elementary functions, conversions, and dots of types they have none for.
#include "differential.h"

namespace kiln::test {
namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
  return out;
}

std::string ptx_of(const std::string& text, const std::string& target) {
  const auto artifact = compile(parse_kernel(text), {}, {}, target, "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message << "\n" << text;
  if (!artifact.ok()) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

// One element a thread of a block of one warp: `op` of %x.
std::string elementwise(const std::string& op, const std::string& from = "f32", const std::string& to = "f32") {
  TextKernel kernel("%a: ptr<" + from + "> readonly, %b: ptr<" + to + ">");
  kernel.line("%x = load " + kernel.pointers("%a", {32}));
  kernel.line("store " + kernel.pointers("%b", {32}) + ", " + kernel.op(op));
  return kernel.text();
}

std::string dot(const std::string& type, const std::string& precision, int64_t m, int64_t n, int64_t k) {
  TextKernel kernel("%a: ptr<" + type + "> readonly, %b: ptr<" + type + "> readonly, %c: ptr<f32>");
  const std::string a = kernel.op("load " + kernel.pointers("%a", {m, k}));
  const std::string b = kernel.op("load " + kernel.pointers("%b", {k, n}));
  const std::string c = kernel.pointers("%c", {m, n});
  kernel.line("store " + c + ", " +
              kernel.op("dot " + a + ", " + b + ", " + kernel.op("load " + c) + " {precision = " + precision + "}"));
  return kernel.text();
}

TEST(NvidiaMath, ExpIsOneEstimateAndAHandfulOfInstructions) {
  const std::string exact = ptx_of(elementwise("math %x {fn = exp}"), "cuda:sm_80");
  EXPECT_EQ(count(exact, "ex2.approx.ftz.f32"), 1u);
  EXPECT_EQ(count(exact, "fma.rn.f32"), 2u);
  const std::string fast = ptx_of(elementwise("math %x {fn = exp, fast = 1}"), "cuda:sm_80");
  EXPECT_EQ(count(fast, "ex2.approx.ftz.f32"), 1u);
  EXPECT_EQ(count(fast, "fma.rn.f32"), 0u);
}

TEST(NvidiaMath, FastTakesTheEstimates) {
  const std::pair<const char*, const char*> cases[] = {{"exp2", "ex2.approx.ftz.f32"}, {"log", "lg2.approx.f32"},
                                                       {"log2", "lg2.approx.f32"},     {"sin", "sin.approx.ftz.f32"},
                                                       {"cos", "cos.approx.ftz.f32"},  {"rsqrt", "rsqrt.approx.f32"},
                                                       {"sqrt", "sqrt.approx.f32"},    {"tanh", "rcp.approx.ftz.f32"}};
  for (const auto& [function, instruction] : cases) {
    const std::string op = std::string("math %x {fn = ") + function + ", fast = 1}";
    EXPECT_EQ(count(ptx_of(elementwise(op), "cuda:sm_90"), instruction), 1u) << function;
  }
}

TEST(NvidiaMath, DivisionAndRootAreCorrectlyRoundedUnlessFast) {
  const std::string exact = ptx_of(elementwise("div %x, %x"), "cuda:sm_86");
  EXPECT_EQ(count(exact, "div.rn.f32"), 1u);
  EXPECT_EQ(count(exact, ".ftz"), 0u);
  EXPECT_EQ(count(ptx_of(elementwise("math %x {fn = sqrt}"), "cuda:sm_80"), "sqrt.rn.f32"), 1u);
  const std::string fast = ptx_of(elementwise("div %x, %x {fast = 1}"), "cuda:sm_80");
  EXPECT_EQ(count(fast, "div.rn.f32"), 0u);
  EXPECT_EQ(count(fast, "rcp.approx.ftz.f32"), 1u);
}

// Of a large divisor it is below the normal numbers, which `fast` may flush: nothing is scaled.
TEST(NvidiaMath, AFastReciprocalIsOneInstruction) {
  const auto quotient_of = [](const std::string& dividend) {
    TextKernel kernel("%a: ptr<f32> readonly, %b: ptr<f32>");
    kernel.line("%x = load " + kernel.pointers("%a", {32}));
    kernel.line("%scalar = constant {value = " + dividend + ", type = f32}");
    kernel.line("%dividend = splat %scalar {shape = [32]}");
    kernel.line("%y = div %dividend, %x {fast = 1}");
    kernel.line("store " + kernel.pointers("%b", {32}) + ", %y");
    return ptx_of(kernel.text(), "cuda:sm_90a");
  };
  EXPECT_EQ(count(quotient_of("1.0"), "mul.rn.f32"), 0u);
  EXPECT_EQ(count(quotient_of("-0.5"), "mul.rn.f32"), 1u);
  EXPECT_EQ(count(quotient_of("2.0"), "mul.rn.f32"), 2u);
}

TEST(NvidiaMath, FewDivisionsAreInlineWhereDoublesAreFast) {
  const std::string divides = elementwise("div %x, %x");
  EXPECT_EQ(count(ptx_of(divides, "cuda:sm_90a"), "div.rn.f32"), 0u);
  EXPECT_EQ(count(ptx_of(divides, "cuda:sm_90a"), "rcp.approx.ftz.f64"), 1u);
  EXPECT_EQ(count(ptx_of(divides, "cuda:sm_89"), "rcp.approx.ftz.f64"), 0u);
}

TEST(NvidiaMath, MinAndMaxAreOneInstruction) {
  EXPECT_EQ(count(ptx_of(elementwise("max %x, %x"), "cuda:sm_80"), "setp"), 1u);  // whether the grid has the program
  TextKernel row("%a: ptr<f32> readonly, %b: ptr<f32>");
  row.line("%x = load " + row.pointers("%a", {32}));
  row.line("store %b, " + row.op("reduce %x {kind = max, axis = 0}"));
  EXPECT_GE(count(ptx_of(row.text(), "cuda:sm_80"), "max.NaN.f32"), 5u);
}

// No function needs a stack or leaves a call of a library behind.
TEST(NvidiaMath, EveryFunctionIsAssembled) {
  for (const char* type : {"f32", "f64"}) {
    for (const char* fn : {"exp", "expm1", "log", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "erf", "erfc",
                           "rsqrt", "round"}) {
      const std::string text = elementwise(std::string("math %x {fn = ") + fn + "}", type, type);
      const auto artifact = compile(parse_kernel(text), {}, {}, "cuda:sm_80", "so");
      ASSERT_TRUE(artifact.ok()) << fn << ": " << artifact.error().message;
      if (artifact->metadata.emit == "ptx") GTEST_SKIP() << "no libnvJitLink on this machine: PTX only";
      EXPECT_EQ(artifact->metadata.device->spill_bytes, 0) << fn;
    }
  }
}

TEST(NvidiaCasts, TakeTheInstructions) {
  const std::string to_bf16 = elementwise("cast %x {to = bf16}", "f32", "bf16");
  EXPECT_EQ(count(ptx_of(to_bf16, "cuda:sm_80"), "cvt.rn.bf16.f32"), 1u);
  const std::string to_f8 = elementwise("cast %x {to = f8e4m3}", "f32", "f8e4m3");
  EXPECT_EQ(count(ptx_of(to_f8, "cuda:sm_80"), "e4m3x2"), 0u);
  EXPECT_EQ(count(ptx_of(to_f8, "cuda:sm_89"), "cvt.rn.satfinite.e4m3x2.f32"), 1u);
  const std::string from_f8 = elementwise("cast %x {to = f32}", "f8e5m2", "f32");
  EXPECT_EQ(count(ptx_of(from_f8, "cuda:sm_90a"), "cvt.rn.f16x2.e5m2x2"), 1u);
}

TEST(NvidiaDots, OfF8GoThroughF16WhereThereIsNoInstruction) {
  const std::string kernel = dot("f8e4m3", "ieee", 64, 64, 32);
  EXPECT_GT(count(ptx_of(kernel, "cuda:sm_80"), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 0u);
  EXPECT_GT(count(ptx_of(kernel, "cuda:sm_89"), "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"), 0u);
}

TEST(NvidiaDots, OfPartsAreThreeProducts) {
  const std::string tf32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
  const size_t once = count(ptx_of(dot("f32", "tf32", 32, 32, 16), "cuda:sm_80"), tf32);
  EXPECT_GT(once, 0u);
  EXPECT_EQ(count(ptx_of(dot("f32", "tf32x3", 32, 32, 16), "cuda:sm_80"), tf32), 3 * once);
  const std::string bf16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
  EXPECT_EQ(count(ptx_of(dot("f32", "bf16x3", 32, 32, 16), "cuda:sm_80"), bf16), 3 * once / 2);
}

TEST(NvidiaDots, SmallerThanTheInstructionUseItAllTheSame) {
  const std::string small = ptx_of(dot("f16", "ieee", 3, 5, 7), "cuda:sm_80");
  EXPECT_EQ(count(small, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 1u);
}

}  // namespace
}  // namespace kiln::test
