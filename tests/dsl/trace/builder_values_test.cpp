// Constants, promotion, broadcasting and the ops that operators and functions give.
#include <cmath>

#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using Tag = ElementType;

// No symbolic thing is a C++ condition.
static_assert(!std::is_convertible_v<Const, int>);
// A Const is an integer; floats do not slip in.
static_assert(std::is_convertible_v<int, Const>);
static_assert(!std::is_convertible_v<float, Const>);
// Parameters are what the tracer makes of them.
static_assert(!std::is_convertible_v<lang::Value, lang::f32>);
static_assert(!std::is_convertible_v<lang::Value, Ptr<lang::f32>>);

TEST(BuilderConst, ComparesAsPolynomials) {
  traced(kernel("k", {"B", "C"}, [](Const B, Const C) {
    EXPECT_EQ((B * 2 + B).expr(), (3 * B).expr());
    EXPECT_EQ((B * C - C * B).expr(), Expr(0));
    EXPECT_NE((B / 2).expr(), (B * 2).expr());
    EXPECT_EQ((-B + B).expr(), Expr(0));
    EXPECT_EQ(cdiv(B, C).expr(), ((B + C - 1) / C).expr());
    EXPECT_EQ((B > C).expr(), (C < B).expr());
  }));
}

TEST(BuilderConst, ConditionsAreOneOrZero) {
  auto value = [](Const c) { return c.expr().as_constant().value_or(-1); };
  EXPECT_EQ(value(Const(3) == 3), 1);
  EXPECT_EQ(value(Const(3) != 3), 0);
  EXPECT_EQ(value(Const(3) <= 3), 1);
  EXPECT_EQ(value(Const(3) >= 4), 0);
  EXPECT_EQ(value(Const(3) && Const(4)), 1);
  EXPECT_EQ(value(Const(3) && Const(0)), 0);
  EXPECT_EQ(value(Const(0) || Const(7)), 1);
  EXPECT_EQ(value(!Const(7)), 0);
  EXPECT_EQ(value(min(Const(3), 4) + max(Const(3), 4) + Const(7) % 4 + Const(7) / 4), 3 + 4 + 3 + 1);
}

TEST(BuilderPromotion, OfTiles) {
  traced(kernel("k", {"a", "b", "c", "d", "e", "f", "g", "h", "i"},
                [](lang::i8 a, i16 b, i32 c, i64 d, u8 e, u32 f, lang::f16 g, lang::bf16 h, lang::f32 i) {
                  EXPECT_EQ((a + b).element(), Tag::kI16);
                  EXPECT_EQ((b + a).element(), Tag::kI16);
                  EXPECT_EQ((c + d).element(), Tag::kI64);
                  EXPECT_EQ((e + c).element(), Tag::kI32);
                  EXPECT_EQ((a + f).element(), Tag::kU32);
                  EXPECT_EQ((c + g).element(), Tag::kF16);
                  EXPECT_EQ((d + i).element(), Tag::kF32);
                  EXPECT_EQ((g + i).element(), Tag::kF32);
                  EXPECT_EQ((g + h).element(), Tag::kF32);
                  EXPECT_EQ((h + h).element(), Tag::kBF16);
                  EXPECT_EQ((c < i).element(), Tag::kI1);
                  EXPECT_EQ(((c < i) + c).element(), Tag::kI32);
                }));
}

TEST(BuilderPromotion, OfSmallFloatsAndInAnyOrder) {
  traced(kernel("k", {"a", "b", "h", "s", "i", "u"}, [](f8e4m3 a, f8e5m2 b, lang::f16 h, lang::f32 s, i32 i, u32 u) {
    EXPECT_EQ((a + h).element(), Tag::kF16);
    EXPECT_EQ((s * b).element(), Tag::kF32);
    EXPECT_EQ((a + b).element(), Tag::kF32);
    EXPECT_EQ((a + 1).element(), Tag::kF8E4M3);
    EXPECT_EQ((a * i).element(), Tag::kF8E4M3);
    EXPECT_EQ(max(b, -INFINITY).element(), Tag::kF8E5M2);
    EXPECT_EQ(fma(a, b, h).element(), Tag::kF16);
    EXPECT_EQ(fma(h, b, a).element(), Tag::kF16);
    EXPECT_EQ(fma(i, u, s).element(), Tag::kF32);
  }));
}

TEST(BuilderPromotion, OfNumbers) {
  traced(kernel("k", {"a", "u", "g", "i", "B"}, [](lang::i8 a, u64 u, lang::bf16 g, lang::f32 i, Const B) {
    EXPECT_EQ((a + 100).element(), Tag::kI8);
    EXPECT_EQ((u + 0xffffffffffffffffull).element(), Tag::kU64);
    EXPECT_EQ((g * 0.1).element(), Tag::kBF16);
    EXPECT_EQ((i + 1).element(), Tag::kF32);
    EXPECT_EQ((1.5 / i).element(), Tag::kF32);
    EXPECT_EQ((i * B).element(), Tag::kF32);
    EXPECT_EQ((u % B).element(), Tag::kU64);
    EXPECT_EQ((B * 0.5f).element(), Tag::kF32);
    // On their own ints have the types of C++, with i32 for a Const; floats are f32, however they are written.
    EXPECT_EQ(splat(1, {}).element(), Tag::kI32);
    EXPECT_EQ(splat(int64_t{1} << 40, {}).element(), Tag::kI64);
    EXPECT_EQ(splat(1.0f, {}).element(), Tag::kF32);
    EXPECT_EQ(splat(1.0, {}).element(), Tag::kF32);
    EXPECT_EQ(where(a < 0, 1.0, 0.5).element(), Tag::kF32);
    EXPECT_EQ(lang::Value(Var(0.5)).element(), Tag::kF32);
    EXPECT_EQ(cast(0.1, lang::f64_t).element(), Tag::kF64);
    EXPECT_EQ(cast<lang::f64>(a).element(), Tag::kF64);
    EXPECT_EQ(splat(B, {}).element(), Tag::kI32);
    EXPECT_EQ(where(a < 0, 1, 0.5f).element(), Tag::kF32);
  }));
}

// Not by way of f32.
TEST(BuilderPromotion, ANumberThatIsCastIsExactInItsType) {
  Kernel k = traced(kernel("k", {"p"}, [](Ptr<f64> p) { store(p, cast(0.1, f64_t)); }));
  const Op* constant = find_op(k.body, OpCode::kConstant);
  ASSERT_NE(constant, nullptr);
  EXPECT_EQ(std::get<Literal>(constant->attrs[0]).bits, bits_from_double(ElementType::kF64, 0.1));
}

TEST(BuilderPromotion, ConstBecomesAConstantWithAnExpression) {
  Kernel k = traced(kernel("k", {"n", "B"}, [](i32 n, Const B) { n + 2 * B; }));
  const Op* constant = find_op(k.body, OpCode::kConstant);
  ASSERT_NE(constant, nullptr);
  EXPECT_EQ(std::get<Expr>(constant->attrs[0]), Expr(2) * Expr::constexpr_ref(0));
  EXPECT_EQ(std::get<ElementType>(constant->attrs[1]), Tag::kI32);
}

TEST(BuilderBroadcast, ScalarsAxesAndMissingAxes) {
  traced(kernel("k", {"n", "B", "C"}, [](i32 n, Const B, Const C) {
    const lang::Value row = arange(0, C), column = expand_dims(arange(0, B), 1);
    const lang::Value both = row + column;
    EXPECT_EQ(both.type().shape, (std::vector<Expr>{B.expr(), C.expr()}));
    EXPECT_EQ((n * both).type().shape, both.type().shape);
    EXPECT_EQ((row < n).rank(), 1);
    EXPECT_EQ(broadcast_to(row, {4, B, C}).rank(), 3);
    EXPECT_EQ(trans(both).type().shape, (std::vector<Expr>{C.expr(), B.expr()}));
    EXPECT_EQ(permute(broadcast_to(both, {4, B, C}), {2, 0, 1}).type().shape,
              (std::vector<Expr>{C.expr(), Expr(4), B.expr()}));
    EXPECT_EQ(both.extent(-1).expr(), C.expr());
    // Equal shapes, written differently, need no broadcast.
    EXPECT_EQ((zeros(f32_t, {2 * B}) + zeros(f32_t, {B + B})).rank(), 1);
    EXPECT_EQ(where(row < n, both, 0).rank(), 2);
  }));
}

TEST(BuilderPointers, MoveByElements) {
  Kernel k = traced(kernel("k", {"p", "n"}, [](Ptr<lang::f32> p, i32 n) {
    const lang::Value tile = p + n + arange(0, 8);
    EXPECT_TRUE(tile.type().pointer);
    EXPECT_EQ(tile.rank(), 1);
    EXPECT_EQ((2 + p).type(), p.type());
    EXPECT_EQ((p - 2).type(), p.type());
    store(tile, load(p + arange(0, 8), {.mask = arange(0, 8) < n, .other = 1}), {.mask = arange(0, 8) < n});
  }));
  EXPECT_EQ(find_op(k.body, OpCode::kLoad)->operands.size(), 3u);
}

TEST(BuilderFunctions, GiveTheTypesOfTheTable) {
  traced(kernel("k", {"x", "n"}, [](lang::f16 x, u16 n) {
    EXPECT_EQ(exp(x).element(), Tag::kF16);
    EXPECT_EQ(softmax(splat(x, {4, 8}), -1).element(), Tag::kF16);
    EXPECT_EQ(gelu_erf(x).element(), Tag::kF16);
    EXPECT_EQ(sum(splat(n, {8}), 0).element(), Tag::kU32);
    EXPECT_EQ(sum(arange(0, 8) < 4, 0).element(), Tag::kI32);
    EXPECT_EQ(sum(splat(x, {8}), 0).element(), Tag::kF16);
    EXPECT_EQ(reduce_max(splat(x, {4, 8}), -1).type().shape, std::vector<Expr>{Expr(4)});
    EXPECT_EQ(dot(splat(x, {4, 8}), splat(x, {8, 2})).type(), tile_type(Tag::kF32, {Expr(4), Expr(2)}));
    EXPECT_EQ(cast(1, f32_t).element(), Tag::kF32);
    EXPECT_EQ(bitcast(x, u16_t).element(), Tag::kU16);
    EXPECT_EQ((~n).element(), Tag::kU16);
    EXPECT_EQ((!(n == 3)).element(), Tag::kI1);
    EXPECT_EQ(fma(x, 2, 1).element(), Tag::kF16);
    EXPECT_EQ(clamp(x, 0, 1).element(), Tag::kF16);
    EXPECT_EQ(abs(-x).element(), Tag::kF16);
    EXPECT_EQ(full({2, 3}, 7, i8_t).type(), tile_type(Tag::kI8, {Expr(2), Expr(3)}));
  }));
}

TEST(BuilderFunctions, CastToTheSameTypeIsNothing) {
  Kernel k = traced(kernel("k", {"x"}, [](lang::f32 x) { cast(x, f32_t); }));
  EXPECT_TRUE(k.body.ops.empty());
}

TEST(BuilderFunctions, HalvesComputeInF32AndRoundOnce) {
  Kernel k = traced(kernel("k", {"x"}, [](lang::bf16 x) { sigmoid(x); }));
  EXPECT_EQ(count_ops(k.body, OpCode::kCast), 2);
  EXPECT_EQ(k.type(find_op(k.body, OpCode::kMath)->results[0]).element, Tag::kF32);
}

TEST(BuilderFacts, BecomeOps) {
  Kernel k = traced(kernel("k", {"p", "n", "B"}, [](Ptr<lang::f32> p, i32 n, Const B) {
    require(B % 16 == 0 && B > 0, "B must be a multiple of 16");
    assume_multiple(n, B);
    assume_multiple(p, 16);
  }));
  EXPECT_EQ(count_ops(k.body, OpCode::kAssume), 2);
  EXPECT_EQ(std::get<std::string>(find_op(k.body, OpCode::kRequire)->attrs[1]), "B must be a multiple of 16");
}

TEST(BuilderLocations, EveryOpKnowsItsLine) {
  int plus = 0, call = 0, plain = 0;
  Kernel k = traced(kernel("k", {"x"}, [&](lang::f32 x) {
    plus = __LINE__ + 1;
    lang::Value y = x + x;
    call = __LINE__ + 1;
    gelu_tanh(y);
    plain = __LINE__ + 1;
    program_id(0);
  }));
  auto line_of = [&](OpCode code) { return static_cast<int>(find_op(k.body, code)->loc.line); };
  EXPECT_EQ(line_of(OpCode::kAdd), plus);
  EXPECT_EQ(line_of(OpCode::kMath), call);  // the caller's line, not the library's
  EXPECT_EQ(line_of(OpCode::kProgramId), plain);
  EXPECT_EQ(k.files, std::vector<std::string>{__FILE__});
}

}  // namespace
}  // namespace kiln::dsl
