// What the lowering to GPUs does with ops that move elements between threads, on blocks of any shape: few and many
// warps, wide ones, tiles smaller than a block and far larger.
#include "algebra_case.h"
#include "gpu/passes/defer_reductions.h"
#include "kiln/dsl/text.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

const std::vector<std::string> kBlocks = {"gpu:warps=1", "gpu:warps=16", "gpu:warps=2,lanes=64"};

TestArgument numbered(int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i);
  return buffer(out);
}

TEST(GpuOps, ScansAndRegionsKeepTheirOrderOnAnyBlock) {
  for (const Shape& shape : {Shape{3}, Shape{600}, Shape{5, 70}, Shape{70, 5}}) {
    const auto count = static_cast<size_t>(elements_of(shape));
    AlgebraCase test(shape, {{ElementType::kI32, random_buffer(ElementType::kI32, count, 1), ""},
                             {ElementType::kI32, random_buffer(ElementType::kI32, count, 2), ""}});
    const std::string region =
        "(%a$, %b$, %p$, %q$) {\n    %ap$ = mul %a$, %p$\n    %bp$ = mul %b$, %p$\n    %s$ = add %bp$, %q$\n"
        "    yield %ap$, %s$\n  }";
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string attrs = " {kind = custom, axis = " + std::to_string(axis);
      const AlgebraCase::Result all{ElementType::kI32, shape}, one{ElementType::kI32, without_axis(shape, axis)};
      test.apply("scan %x0, %x1" + attrs + ", reverse = 1} " + region, {all, all});
      test.apply("reduce %x0, %x1" + attrs + "} " + region, {one, one});
    }
    test.check(sampled(kBlocks, 1));
  }
}

// By a network in registers, and by the loops in shared memory that many elements of a thread take.
TEST(GpuOps, SortsSmallAndLargeTilesOnAnyBlock) {
  for (const Shape& shape : {Shape{3}, Shape{40, 3}, Shape{3, 700}}) {
    AlgebraCase test(shape, {{ElementType::kF32, tied_buffer(ElementType::kF32, elements_of(shape), 3), ""},
                             {ElementType::kI64, numbered(elements_of(shape)), ""}});
    const size_t axis = shape.size() - 1;
    const std::string attrs = "axis = " + std::to_string(axis) + "}";
    const Shape three = with_extent(shape, axis, 3);
    test.apply("sort %x0, %x1 {" + attrs, {{ElementType::kF32, shape}, {ElementType::kI64, shape}});
    test.apply("topk %x0 {k = 3, " + attrs, {{ElementType::kF32, three}, {ElementType::kI32, three}});
    test.apply("topk %x1 {k = 2, axis = 0}",
               {{ElementType::kI64, with_extent(shape, 0, 2)}, {ElementType::kI32, with_extent(shape, 0, 2)}});
    test.check(sampled(kBlocks, 1));
  }
}

// Records of 47 bits: 192 KiB in two arrays, 256 KiB as whole ones.
TEST(GpuOps, SortsRecordsInPartsWhereWholeOnesAreTooMany) {
  const Shape shape = {32768};
  AlgebraCase test(shape, {{ElementType::kF32, tied_buffer(ElementType::kF32, elements_of(shape), 3), ""}});
  test.apply("topk %x0 {k = 3, axis = 0}", {{ElementType::kF32, {3}}, {ElementType::kI32, {3}}});
  test.check({"gpu:warps=8"});
}

TEST(GpuOps, ViewsAndStagedShapesOnAnyBlock) {
  const Shape shape = {6, 32};
  AlgebraCase test(shape, {{ElementType::kI64, numbered(192), ""}});
  const auto all = [](const Shape& result) { return std::vector<AlgebraCase::Result>{{ElementType::kI64, result}}; };
  test.apply("slice %x0 {axis = 1, start = 8, end = 16}", all({6, 8}));
  test.apply("slice %x0 {axis = 1, start = 16, end = 32}", all({6, 16}));
  test.apply("slice %x0 {axis = 1, start = 31, end = 32}", all({6, 1}));
  test.apply("slice %x0 {axis = 0, start = 1, end = 6}", all({5, 32}));
  test.apply("cat %x0, %x0 {axis = 0}", all({12, 32}));
  test.apply("cat %x0, %x0 {axis = 1}", all({6, 64}));
  test.apply("reshape %x0 {shape = [3, 64]}", all({3, 64}));
  test.apply("reshape %x0 {shape = [192]}", all({192}));
  test.apply("reshape %x0 {shape = [4, 3, 16]}", all({4, 3, 16}));
  test.apply("reshape %x0 {shape = [6, 2, 1, 16]}", all({6, 2, 1, 16}));
  test.check(kBlocks);
}

TEST(GpuOps, CountsEachElementOnceOnAnyBlock) {
  for (const Shape& shape : {Shape{5}, Shape{7, 60}}) {
    for (ElementType type : {ElementType::kI8, ElementType::kU16, ElementType::kI64}) {
      AlgebraCase test(shape, {{type, tied_buffer(type, elements_of(shape), 5), ""}});
      for (int64_t bins : {1, 3, 300}) {
        test.apply("histogram %x0 {bins = " + std::to_string(bins) + "}", {{ElementType::kI32, {bins}}});
      }
      test.check(kBlocks);
    }
  }
}

constexpr char kLoop[] = R"(kernel test(%p: ptr<f32>, %o: ptr<f32>, %n: i32) {
  grid [1, 1, 1]
  %zero = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  %size = constant {value = 100, type = i32}
  %init = constant {value = 2.5, type = f32}
  %i = arange {start = 0, end = 100}
  %sum, %most = for %k = %zero to %n step %one carry (%a = %init, %m = %init) : f32, f32 {
    %first = mul %k, %size
    %offset = splat %first {shape = [100]}
    %j = add %offset, %i
    %b = splat %p {shape = [100]}
    %q = addptr %b, %j
    %x = load %q
    %s = reduce %x {kind = sum, axis = 0}
    %t = reduce %x {kind = max, axis = 0}
    %next = add %a, %s
    %more = max %t, %m {numeric = 0}
    yield %next, %more
  }
  store %o, %sum
  %o1 = addptr %o, %one
  store %o1, %most
}
)";

TEST(DeferReductions, LeavesOneReductionBehindTheLoop) {
  const std::string text = dsl::print(codegen::gpu::defer_reductions(parse_kernel(kLoop), 128));
  const size_t loop_end = text.find("\n  }");
  ASSERT_NE(loop_end, std::string::npos);
  EXPECT_EQ(text.find("reduce"), text.find("reduce", loop_end)) << text;
  EXPECT_NE(text.find("reduce", loop_end), std::string::npos) << text;
  EXPECT_NE(text.find("value = -0.0"), std::string::npos) << text;
  EXPECT_NE(text.find("value = -inf"), std::string::npos) << text;
}

TEST(DeferReductions, KeepsWhatIsUsedInTheLoopOrTooLarge) {
  const dsl::Kernel large = parse_kernel(kLoop);
  EXPECT_EQ(dsl::print(codegen::gpu::defer_reductions(large, 2)), dsl::print(large));
  std::string text = kLoop;
  text.replace(text.find("%t, %m"), 6, "%t, %a");
  text.replace(text.find("add %a, %s"), 10, "add %m, %s");
  const dsl::Kernel crossed = parse_kernel(text);
  EXPECT_EQ(dsl::print(codegen::gpu::defer_reductions(crossed, 128)), dsl::print(crossed));
}

TEST(DeferReductions, GivesWhatTheLoopGave) {
  for (int64_t count : {0, 1, 7}) {
    TestArgument out = random_buffer(ElementType::kF32, 2, 1);
    expect_same(kLoop,
                {{random_buffer(ElementType::kF32, 700, 4, false), out, int_scalar(count)}, {1e-5, 1e-4}, kBlocks});
  }
}

}  // namespace
}  // namespace kiln::test
