// The `where` lines of a kernel are conditions of its launches.
#include "kiln/dsl/conditions.h"

#include "kiln/dsl/binary.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/outside.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

constexpr const char* kRows =
    "kernel rows(%out: ptr<i32>, %cols: i32, %k: i8) { constexpr BLOCK = 64\n"
    "where le(cols, BLOCK)\nwhere le(1, k)\nwhere le(16, BLOCK)\n"
    "%one = constant {value = 1, type = i32}\nstore %out, %one }";

Result<void> launch(const Kernel& kernel, int32_t& out, int32_t cols, int8_t k) {
  const Argument arguments[] = {
      {&out, 1, 0}, {nullptr, 0, static_cast<uint32_t>(cols)}, {nullptr, 0, static_cast<uint8_t>(k)}};
  return interpret(kernel, arguments, {1, 1, 1});
}

Kernel instance(int64_t block) {
  auto out = instantiate(parsed(kRows), {{"BLOCK", block}}, {});
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out ? std::move(*out) : Kernel();
}

TEST(Conditions, OfALaunchAreCheckedBeforeAnythingRuns) {
  const Kernel kernel = instance(64);
  int32_t out = 0;
  EXPECT_EQ(first_line(launch(kernel, out, 65, 1)), "kernel `rows`: le(cols, 64) is false (cols=65)");
  EXPECT_EQ(first_line(launch(kernel, out, 64, -1)), "kernel `rows`: le(1, k) is false (k=-1)");
  EXPECT_EQ(out, 0);
  EXPECT_TRUE(launch(kernel, out, 64, 1).ok());
  EXPECT_EQ(out, 1);
}

TEST(Conditions, ThatNoLaunchMeetsStayInTheInstance) {
  int32_t out = 0;
  EXPECT_EQ(first_line(launch(instance(8), out, 1, 1)), "kernel `rows`: le(16, BLOCK) is false (BLOCK=8)");
  EXPECT_EQ(out, 0);
  EXPECT_EQ(instance(16).constraints.size(), 2u);  // what all launches of it meet is gone
}

TEST(Conditions, NameTheValuesOfParametersAndConstexprs) {
  const Kernel kernel = parsed(kRows);
  EXPECT_EQ(first_line(check_conditions(kernel, {{64}, {std::nullopt, 100, 1}})),
            "kernel `rows`: le(cols, BLOCK) is false (cols=100, BLOCK=64)");
  EXPECT_TRUE(check_conditions(kernel, {{64}, {std::nullopt, 64, 1}}).ok());
  EXPECT_EQ(first_line(check_conditions(kernel, {{64}, {}})),
            "kernel `rows`: le(cols, BLOCK): parameter #1 has no value");
}

TEST(Conditions, SayWhyWhereTheirAuthorDid) {
  const std::string text =
      "kernel rows(%out: ptr<i32>, %cols: i32) { constexpr BLOCK = 64\n"
      "where le(cols, BLOCK), \"a row must fit a \\\"block\\\"\"\nwhere eq(rem(BLOCK, 16), 0), \"of 16\"\n"
      "%one = constant {value = 1, type = i32}\nstore %out, %one }";
  const Kernel kernel = parsed(text);
  EXPECT_EQ(print(parsed(print(kernel))), print(kernel));
  auto again = decode_kernel(encode_kernel(kernel));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(print(*again), print(kernel));
  EXPECT_EQ(first_line(check_conditions(kernel, {{64}, {std::nullopt, 100}})),
            "kernel `rows`: le(cols, BLOCK) is false (cols=100, BLOCK=64): a row must fit a \"block\"");
  auto odd = instantiate(kernel, {{"BLOCK", 24}}, {});
  ASSERT_TRUE(odd.ok()) << odd.error().message;
  int32_t out = 0;
  EXPECT_EQ(first_line(interpret(*odd, std::vector<Argument>{{&out, 1, 0}, {nullptr, 0, 1}}, {1, 1, 1})),
            "kernel `rows`: eq(rem(BLOCK, 16), 0) is false (BLOCK=24): of 16");
}

// Of the function's own expressions, comparisons and what combines them.
TEST(Conditions, AreRequiredByAuthorsOfParameters) {
  using namespace lang;
  const auto def = kernel("k", {"x", "rows", "cols", "B=64"}, [](Ptr<f32> x, i32 rows, i32 cols, Const B) {
    require((rows >= 1) & ((cols + 1 <= B) | (cols == 2 * B)), "a row must fit a block");
    require(!(rows == cols), "no squares");
    tile(x, {rows, cols}).store({0, 0}, zeros(f32_t, {1, B}));
  });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  const auto says = [&](int64_t rows, int64_t cols) {
    return first_line(check_conditions(*def.ir(), {{64}, {std::nullopt, rows, cols}}));
  };
  EXPECT_EQ(says(2, 63), "");
  EXPECT_EQ(says(2, 128), "");
  const std::string sentence = says(2, 64);
  EXPECT_NE(sentence.find(" is false (rows=2, cols=64, B=64): a row must fit a block"), std::string::npos) << sentence;
  EXPECT_NE(says(0, 3).find("a row must fit a block"), std::string::npos);
  EXPECT_NE(says(5, 5).find("ne("), std::string::npos) << says(5, 5);
  EXPECT_NE(says(5, 5).find("no squares"), std::string::npos);
}

TEST(Conditions, AreNotWhatOnlyAKernelKnows) {
  using namespace lang;
  const auto def = kernel("k", {"x"}, [](Ptr<i32> x) { require(load(x) >= 1, "positive"); });
  ASSERT_FALSE(def.ir().ok());
  EXPECT_NE(
      def.ir().error().message.find("require: the condition must be an integer expression over scalar parameters"),
      std::string::npos)
      << def.ir().error().message;
}

TEST(Conditions, IntsAreReadAsTheirTypesSay) {
  const Kernel kernel =
      parsed("kernel k(%a: i8, %b: u8, %c: i1, %d: u32, %x: f32, %p: ptr<i32>, %e: i64) { grid [1, 1, 1] }");
  const std::vector<Argument> arguments(7, Argument{nullptr, 0, ~uint64_t{0}});
  std::vector<std::optional<int64_t>> params;
  bind_ints(kernel, arguments, params);
  using Values = std::vector<std::optional<int64_t>>;
  EXPECT_EQ(params, (Values{-1, 255, 1, 4294967295, std::nullopt, std::nullopt, -1}));
}

TEST(Outside, SaysWhatIsKnownOfTheBuffer) {
  int32_t data = 0;
  EXPECT_EQ(outside_text("x", {&data, 8, 0}, 12), "index 12 is outside `x`, which has 8 elements");
  EXPECT_EQ(outside_text("x", {nullptr, kUnknownExtent, 0}, 0), "index 0 is outside `x`, which is a null pointer");
  EXPECT_EQ(outside_text("x", {&data, kUnknownExtent, 0}, -1),
            "index -1 is outside `x`: it lies before the first element");
}

TEST(Outside, ANullPointerInTheInterpreterHasNoElements) {
  const Kernel kernel = instance(64);
  const Argument arguments[] = {{nullptr, kUnknownExtent, 0}, {nullptr, 0, 1}, {nullptr, 0, 1}};
  EXPECT_NE(first_line(interpret(kernel, arguments, {1, 1, 1})).find("`out`, which is a null pointer"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln::dsl::testing
