// What passes build ops with, and ints as numbers.
#include "kiln/dsl/op_builder.h"

#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/wide.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

TEST(OpBuilder, MakesOpsOfTheLanguagesTypesWithDefaults) {
  Kernel kernel = parsed("kernel k(%p: ptr<f32>, %x: f32) {\n}\n");
  const Location loc{0, 7, 3};
  OpBuilder build(kernel, kernel.body.ops, loc);
  const ValueId tile = build.splat(1, shape_of({4, 8}));
  EXPECT_EQ(build.splat(1, {}), 1u);
  EXPECT_EQ(build.type(tile), tile_type(ElementType::kF32, {4, 8}));
  const ValueId quotient = build.add(OpCode::kDiv, {tile, tile});
  EXPECT_EQ(int_attr(kernel.body.ops.back(), 0), 0);  // `fast`
  const std::vector<ValueId> best = build.add_all(OpCode::kTopk, {quotient}, {Expr(2), int64_t{1}});
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(build.type(best[0]), tile_type(ElementType::kF32, {4, 2}));
  EXPECT_EQ(build.type(best[1]), tile_type(ElementType::kI32, {4, 2}));
  EXPECT_EQ(number_attr(kernel.body.ops.back(), 0), 2);
  const ValueId wanted = fresh_value(kernel, tile_type(ElementType::kF32, {8}));
  build.define(wanted, bits_from_double(ElementType::kF32, 2.5));
  build.effect(OpCode::kPrint, {best[0], best[1], wanted}, {std::string("all")});
  EXPECT_EQ(kernel.body.ops.back().results.size(), 0u);
  for (const Op& op : kernel.body.ops) EXPECT_EQ(op.loc.line, 7u);
  auto valid = verify(kernel);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
}

TEST(OpBuilder, GivesAReductionItsRegion) {
  Kernel kernel = parsed(R"(kernel k(%x: f32) {
  %tile = splat %x {shape = [8]} : tile<[8], f32>
  %total = reduce %tile {kind = custom, axis = 0} : f32 (%l, %r) {
    %both = add %l, %r : f32
    yield %both
  }
  print %total {message = "total"}
}
)");
  const Op reduce = kernel.body.ops[1];
  OpBuilder build(kernel, kernel.body.ops, reduce.loc);
  const auto again = build.add_all(reduce.code, reduce.operands, reduce.attrs, {clone(kernel, reduce.regions[0])});
  build.effect(OpCode::kPrint, again, {std::string("again")});
  EXPECT_EQ(kernel.type(again[0]), kernel.type(reduce.results[0]));
  auto valid = verify(kernel);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
}

TEST(Wide, HoldsTheRangeOfEachIntType) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    if (is_float(type)) continue;
    SCOPED_TRACE(info(type).name);
    EXPECT_EQ(highest(type) - lowest(type) + 1, Wide{1} << info(type).bits);
    for (Wide number : {lowest(type), highest(type), Wide{0}, Wide{1}}) {
      EXPECT_TRUE(number_from_bits(type, bits_from_number(type, number)) == number);
    }
    EXPECT_EQ(bits_from_number(type, highest(type) + 1), bits_from_number(type, lowest(type)));
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
