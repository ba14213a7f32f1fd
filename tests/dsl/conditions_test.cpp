// The `where` lines of a kernel are conditions of its launches.
#include "kiln/dsl/conditions.h"

#include "kiln/dsl/instantiate.h"
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
  EXPECT_EQ(first_line(launch(instance(8), out, 1, 1)), "kernel `rows`: 0 is false");
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
