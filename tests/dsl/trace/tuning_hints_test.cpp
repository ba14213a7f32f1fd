// What a kernel tells the tuner: constraints of its space, and the arrays behind its pointers.
#include <algorithm>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/kernels.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

constexpr const char* kHints =
    "kernel rows(%x: ptr<f32>, %ids: ptr<i32>, %n: i32, %cols: i32) { constexpr BLOCK = 64\n"
    "space BLOCK = [64, 128]\nspace \"cpu\" BLOCK = [8, 32]\nwhere le(cols, BLOCK)\nwhere BLOCK - 32\n"
    "array x = cols*n\narray ids = n in [0, n + 1]\n}";

std::string text_of(const std::string& header) {
  return "kernel k(%x: ptr<f32>, %a: f32, %n: i32) { constexpr B = 1\n" + header + "\nstore %x, %a }";
}

TEST(TuningHints, PrintAndReadBack) {
  const std::string text = print(parsed(kHints));
  for (const char* line : {"  space \"cpu\" BLOCK = [8, 32]\n", "  where le(cols, BLOCK)\n", "  where BLOCK - 32\n",
                           "  array x = n*cols\n", "  array ids = n in [0, n + 1]\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(TuningHints, TravelInTheBinaryFormAndMakeNoKey) {
  const Kernel kernel = parsed(kHints);
  const auto decoded = decode_kernel(encode_kernel(kernel));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(print(*decoded), print(kernel));

  Kernel bare = kernel;
  bare.space.clear();
  bare.constraints.clear();
  bare.arrays.clear();
  EXPECT_EQ(encode_request({kernel, "cpu", {}, {}})->canonical, encode_request({bare, "cpu", {}, {}})->canonical);
}

// What tiles and descriptors say of a pointer that nothing else reaches is the size of its array.
TEST(TuningHints, TilesSayHowLargeArraysAre) {
  using namespace kiln::lang;
  auto def = kernel("sized", {"x", "y", "z", "u", "v", "w", "rows", "cols", "ld", "B=64"},
                    [](Ptr<const f32> x, Ptr<f32> y, Ptr<const f32> z, Ptr<const f32> u, Ptr<const f32> v,
                       Ptr<const i32> w, i32 rows, i32 cols, i32 ld, Const B) {
                      grid(cdiv(rows, B));
                      const lang::Value at = program_id(0) * B;
                      const lang::Value a = tile(x, {rows}).load({at}, {B});
                      const lang::Value b = tile(z, {rows, cols}, {ld, 1}).load({at, 0}, {B, 1});
                      const lang::Value c = descriptor(v, {rows, cols}, {}, {B, 4}).load({at, 0});
                      const lang::Value d = load(u + at) + tile(u, {rows}).load({0}, {1});
                      const lang::Value first = load(w);
                      const lang::Value e = tile(x, {first}).load({0}, {B});
                      tile(y, {cols}).store({at}, a + reshape(b, {B}) + sum(c, 1) + d);
                      tile(y, {rows}).store({at}, a + e);
                    });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  const std::string text = print(*def.ir());
  EXPECT_NE(text.find("array y = max(cols, rows)"), std::string::npos) << text;
  EXPECT_NE(text.find("array z = rows*ld + cols - ld"), std::string::npos) << text;
  EXPECT_NE(text.find("array v = rows*cols"), std::string::npos) << text;
  for (const char* unknown : {"array x", "array u", "array w"})
    EXPECT_EQ(text.find(unknown), std::string::npos) << text;
  // What the author says replaces it.
  auto stated = kernel("stated", {"x", "n", "B=64"}, [](Ptr<f32> x, i32 n, Const B) {
                  grid(cdiv(n, B));
                  tile(x, {n}).store({program_id(0) * B}, zeros(f32_t, {B}));
                }).array("x", "2*n");
  ASSERT_TRUE(stated.ir().ok()) << stated.ir().error().message;
  ASSERT_EQ(stated.ir()->arrays.size(), 1u);
  EXPECT_NE(print(*stated.ir()).find("array x = 2*n"), std::string::npos);
}

TEST(TuningHints, TheTextIsChecked) {
  const auto error_of = [](const std::string& header) { return first_line(parse(text_of(header), "k")); };
  EXPECT_EQ(error_of("where"), "k:3:1: error: there is no constexpr or parameter `store`");
  EXPECT_EQ(error_of("where le(B)"), "k:2:11: error: expected `,`, found `)`");
  EXPECT_EQ(error_of("array 3 = n"), "k:2:7: error: expected the name of a pointer parameter, found `3`");
  EXPECT_EQ(error_of("space \"cpu\" = [1]"),
            "k:2:13: error: expected the name of a constexpr or a schedule option, found `=`");
  EXPECT_EQ(error_of("array x n"), "k:2:9: error: expected `=`, found `n`");
  EXPECT_EQ(error_of("array x = n in [0]"), "k:2:18: error: expected `,`, found `]`");
}

TEST(TuningHints, TheVerifierKnowsPointersAndInts) {
  const auto error_of = [](const std::string& header) {
    const auto kernel = parse(text_of(header), "k");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return first_line(verify(*kernel));
  };
  EXPECT_EQ(error_of("where le(a, B)"),
            "kernel `k`: error: a condition of launches mentions the parameter `a`, which is not an int");
  EXPECT_EQ(error_of("array n = n"), "kernel `k`: error: the array `n` is not a pointer parameter");
  EXPECT_EQ(error_of("array x = n\narray x = n"), "kernel `k`: error: the array `x` is described twice");
  EXPECT_EQ(error_of("array x = a"),
            "kernel `k`: error: the size of the array `x` mentions the parameter `a`, which is not an int");
  EXPECT_EQ(error_of("array x = n in [0, a]"),
            "kernel `k`: error: the range of the array `x` mentions the parameter `a`, which is not an int");
}

TEST(TuningHints, ABuilderGivesThem) {
  using namespace lang;
  const auto make = [] {
    return kernel("k", {"p", "n", "B=16"},
                  [](Ptr<f32> p, i32, Const B) { store(p + arange(0, B), zeros(f32_t, {B})); });
  };
  const auto def = make().space({{"B", {16, 32}}}).where("le(B, n)").array("p", "n*2", "0", "n");
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  EXPECT_NE(print(*def.ir()).find("  where le(B, n)\n  array p = 2*n in [0, n]\n"), std::string::npos)
      << print(*def.ir());
  EXPECT_EQ(first_line(make().where("le(B, m)").ir()),
            "kernel `k`: where: the expression `le(B, m)`: :1:7: error: there is no constexpr or parameter `m`");
  EXPECT_EQ(first_line(make().array("n", "4").ir()),
            "kernel `k`: array `n`: there is no pointer parameter of that name");
  EXPECT_EQ(first_line(make().array("p", "4").array("p", "4").ir()), "kernel `k`: array `p`: it is described twice");
  EXPECT_EQ(first_line(make().array("p", "4", "0").ir()), "kernel `k`: array `p`: a range has two ends");
}

TEST(TuningHints, AnExpressionAloneIsReadWhole) {
  const Kernel kernel = parsed(kHints);
  EXPECT_TRUE(parse_expr(kernel, "div(n + 15, 16)*BLOCK").ok());
  EXPECT_FALSE(parse_expr(kernel, "n n").ok());
  EXPECT_FALSE(parse_expr(kernel, "").ok());
  EXPECT_FALSE(parse_expr(kernel, "x").ok());
}

TEST(TuningHints, EveryPointerOfTheLibraryIsAnArray) {
  for (const LibraryKernel& kernel : library_kernels()) {
    ASSERT_TRUE(kernel.ir->ok()) << kernel.name;
    for (const Param& param : (*kernel.ir)->params) {
      if (!param.type.pointer) continue;
      EXPECT_TRUE(std::ranges::any_of((*kernel.ir)->arrays, [&](const ArrayInfo& a) { return a.param == param.name; }))
          << kernel.name << ": " << param.name;
    }
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
