// The examples of docs/use/authoring.md, word for word, run on the interpreter.
#include <cmath>

#include "builder_helpers.h"

namespace guide {

using namespace kiln::lang;

auto scale =
    kernel("scale", {"x", "y", "n", "a", "BLOCK=1024"}, [](Ptr<const f32> x, Ptr<f32> y, i32 n, f32 a, Const BLOCK) {
      grid(cdiv(n, BLOCK));
      Value start = program_id(0) * BLOCK;
      Value v = tile(x, {n}).load({start}, {BLOCK});
      tile(y, {n}).store({start}, a * v);
    });

template <class T>
auto row_max() {
  return kernel("row_max", {"x", "y", "rows", "cols", "BLOCK=1024"},
                [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, Const BLOCK) {
                  require(BLOCK % 16 == 0, "BLOCK must be a multiple of 16");
                  grid(rows);
                  Value row = program_id(0);
                  Tile line = tile(x + cast(row, i64_t) * cols, {cols});
                  Var top = full({BLOCK}, -INFINITY, element_v<T>);
                  for (Value col : range(0, cols, BLOCK).stages(2)) {
                    top = max(top, line.load({col}, {BLOCK}, {.other = -INFINITY}));
                  }
                  store(y + row, reduce_max(top, -1));
                })
      .space({{"BLOCK", {256, 1024, 4096}}});
}

}  // namespace guide

namespace kiln::dsl {
namespace {

TEST(AuthoringGuide, Scale) {
  std::vector<float> x(100, 3), y(100);
  run(traced(guide::scale), {{"BLOCK", 16}}, {buffer(x), buffer(y), number(int64_t{100}), number(0.5f)});
  EXPECT_EQ(y, std::vector<float>(100, 1.5f));
}

TEST(AuthoringGuide, RowMax) {
  std::vector<float> x(3 * 50, -7), y(3);
  x[20] = 1, x[50] = 2, x[149] = -3;
  run(traced(guide::row_max<lang::f32>()), {{"BLOCK", 16}},
      {buffer(x), buffer(y), number(int64_t{3}), number(int64_t{50})});
  EXPECT_EQ(y, (std::vector<float>{1, 2, -3}));
  auto refused = instantiate(*guide::row_max<lang::f32>().ir(), {{"BLOCK", 24}}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("BLOCK must be a multiple of 16"), std::string::npos);
}

}  // namespace
}  // namespace kiln::dsl
