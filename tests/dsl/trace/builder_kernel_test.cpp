// kernel(): names, defaults, C++ types, grid, config space.
#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using lang::f32;

template <class... Args>
using DefType = KernelDef<Args...>;

static_assert(std::is_same_v<launch_type_t<Ptr<f32>>, float*>);
static_assert(std::is_same_v<launch_type_t<Ptr<const f32>>, const float*>);
static_assert(std::is_same_v<launch_type_t<i32>, int32_t>);
static_assert(std::is_same_v<launch_type_t<u8>, uint8_t>);
static_assert(std::is_same_v<launch_type_t<Ptr<const lang::bf16>>, const kiln::bf16*>);
static_assert(sizeof(kiln::f16) == 2 && sizeof(kiln::bf16) == 2);

template <class T>
auto scale() {
  return kernel("scale", {"x", "n", "a", "BLOCK=64"}, [](Ptr<T> x, i32 n, f32 a, Const BLOCK) {
    grid(cdiv(n, BLOCK));
    const Tile line = tile(x, {n});
    const lang::Value start = program_id(0) * BLOCK;
    line.store({start}, cast(line.load({start}, {BLOCK}) * a, element_v<T>));
  });
}

TEST(BuilderKernel, TheTypeHasTheParametersThatAreNotConst) {
  static_assert(std::is_same_v<decltype(scale<f32>()), DefType<Ptr<f32>, i32, f32>>);
  static_assert(std::is_same_v<decltype(scale<lang::f16>()), DefType<Ptr<lang::f16>, i32, f32>>);
  auto mixed = kernel("k", {"A", "n", "B"}, [](Const, const i32&, Const) {});
  static_assert(std::is_same_v<decltype(mixed), DefType<i32>>);
  auto none = kernel("k", {}, [] {});
  static_assert(std::is_same_v<decltype(none), DefType<>>);
}

TEST(BuilderKernel, NamesParametersAndDefaults) {
  Kernel k = traced(scale<f32>());
  EXPECT_EQ(k.name, "scale");
  ASSERT_EQ(k.params.size(), 3u);
  EXPECT_EQ(k.params[0].name, "x");
  EXPECT_FALSE(k.params[0].readonly);
  EXPECT_EQ(k.values[k.params[2].value].name, "a");
  ASSERT_EQ(k.constexprs.size(), 1u);
  EXPECT_EQ(k.constexprs[0].name, "BLOCK");
  EXPECT_EQ(k.constexprs[0].default_value, 64);
  Kernel bare = traced(kernel("k", {"p", "B"}, [](Ptr<const f32>, Const) {}));
  EXPECT_TRUE(bare.params[0].readonly);
  EXPECT_EQ(bare.constexprs[0].default_value, std::nullopt);
}

TEST(BuilderKernel, TextIsWhatAFileHolds) {
  auto def = scale<f32>().space({{"BLOCK", {32, 64}}});
  auto text = def.text();
  ASSERT_TRUE(text.ok()) << text.error().message;
  auto read = parse(*text, "scale.kiln");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(print(*read), *text);
  EXPECT_EQ(read->space.size(), 1u);
  EXPECT_FALSE(kernel("k", {}, [](Ptr<f32>) {}).text().ok());
}

TEST(BuilderKernel, OneTemplateGivesAKernelPerType) {
  EXPECT_EQ(traced(scale<f32>()).params[0].type.element, ElementType::kF32);
  EXPECT_EQ(traced(scale<lang::bf16>()).params[0].type.element, ElementType::kBF16);
}

TEST(BuilderKernel, SpaceAndContract) {
  auto def = scale<f32>().space({{"BLOCK", {32, 64}}, {"num_warps", {4, 8}}}).contract(false);
  Kernel k = traced(def);
  ASSERT_EQ(k.space.size(), 2u);
  EXPECT_EQ(k.space[0].values, (std::vector<int64_t>{32, 64}));
  EXPECT_FALSE(k.options.contract);
  EXPECT_EQ(traced(scale<f32>().space({{"BLOCK", {32}}})).space.size(), 1u);
}

TEST(BuilderKernel, SpaceOfATarget) {
  auto def = scale<f32>().space("cpu", {{"BLOCK", {8}}}).space({{"BLOCK", {32}}}).space("cpu", {{"BLOCK", {16}}});
  const Kernel k = traced(def);
  ASSERT_EQ(k.space.size(), 2u);
  EXPECT_EQ(k.space[0].target, "");
  EXPECT_EQ(k.space[1].target, "cpu");
  EXPECT_EQ(k.space[1].values, (std::vector<int64_t>{16}));
}

TEST(BuilderKernel, Options) {
  const KernelOptions options =
      traced(scale<f32>().fuse_precision().deterministic().debug().check_bounds().contract(false)).options;
  EXPECT_EQ(options, (KernelOptions{false, true, true, true, true}));
  const KernelOptions lines = traced(scale<f32>().debug_lines()).options;
  EXPECT_TRUE(lines.lines && !lines.debug);
  EXPECT_NE(scale<f32>().id(), scale<f32>().debug().id());
}

TEST(BuilderGrid, IsAnExpressionOfParametersAndConsts) {
  Kernel k = traced(kernel("k", {"m", "n", "l", "B=8"}, [](i32 m, i64 n, u32 l, Const B) {
    grid(cdiv(m, B) * max(cast(n, i32_t), 1), min(m, B) - 1 + m % 3, -cast(l, i32_t) + 2 * B);
  }));
  Bindings bindings{{8}, {20, 5, 3}};
  EXPECT_EQ(k.grid[0].evaluate(bindings).value(), 3 * 5);
  EXPECT_EQ(k.grid[1].evaluate(bindings).value(), 8 - 1 + 2);
  EXPECT_EQ(k.grid[2].evaluate(bindings).value(), -3 + 16);
}

TEST(BuilderGrid, IsOneProgramUnlessSaidOtherwise) {
  EXPECT_EQ(traced(kernel("k", {}, [] {})).grid[0], Expr(1));
  Kernel k = traced(kernel("k", {"B"}, [](Const B) { grid(B, 2); }));
  EXPECT_EQ(k.grid[0], Expr::constexpr_ref(0));
  EXPECT_EQ(k.grid[1], Expr(2));
  EXPECT_EQ(k.grid[2], Expr(1));
}

TEST(BuilderKernel, ATraceInsideATraceIsItsOwn) {
  Kernel outer = traced(kernel("outer", {"n"}, [](i32 n) {
    n + 1;
    Kernel inner = traced(kernel("inner", {"m"}, [](i32 m) { m * 2; }));
    EXPECT_EQ(count_ops(inner.body, OpCode::kMul), 1);
    EXPECT_EQ(count_ops(inner.body, OpCode::kAdd), 0);
    n + 2;
  }));
  EXPECT_EQ(count_ops(outer.body, OpCode::kAdd), 2);
  EXPECT_EQ(count_ops(outer.body, OpCode::kMul), 0);
}

TEST(BuilderKernel, OutsideOfAKernelNothingHappens) {
  lang::Value x = program_id(0) + 1;
  Var v = 3;
  v += x;
  for (lang::Value i : range(0, 3)) store(x + i, v);
  EXPECT_FALSE(x.valid());
}

TEST(BuilderKernel, AnExceptionOfTheAuthorLeavesNoTraceBehind) {
  auto broken = [] {
    kernel("k", {"n"}, [](i32 n) {
      for ([[maybe_unused]] lang::Value i : range(n)) throw 7;
    });
  };
  EXPECT_THROW(broken(), int);
  EXPECT_FALSE(program_id(0).valid());
}

TEST(BuilderStorage, SixteenBitFloatsConvert) {
  EXPECT_EQ(static_cast<float>(kiln::f16::from(1.5)), 1.5f);
  EXPECT_EQ(kiln::bf16::from(1.0).bits, 0x3f80);
}

}  // namespace
}  // namespace kiln::dsl
