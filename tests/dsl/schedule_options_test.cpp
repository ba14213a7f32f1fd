// Schedule options: what each may be, which targets obey it, and the names of schedules wherever a config is written.
#include "kiln/target/schedule_options.h"

#include <gtest/gtest.h>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

Result<Kernel> with_header(const std::string& header) {
  return parse("kernel k(%p: ptr<f32>, %x: f32) {\n  " + header + "\n\n  store %p, %x\n}\n", "k.kiln");
}

TEST(ScheduleOptions, EachAllowsItsValuesAndNoOthers) {
  for (const target::ScheduleOption& option : target::schedule_options()) {
    EXPECT_TRUE(check_schedule_option(option.name, option.least)) << option.name;
    EXPECT_TRUE(check_schedule_option(option.name, option.most)) << option.name;
    EXPECT_FALSE(check_schedule_option(option.name, option.least - 1)) << option.name;
    EXPECT_FALSE(check_schedule_option(option.name, option.most + 1)) << option.name;
    EXPECT_TRUE(option.none == 0 || option.allows(option.none)) << option.name;
  }
  EXPECT_TRUE(check_schedule_option("num_warps", 16));
  EXPECT_FALSE(check_schedule_option("num_warps", 12));
  EXPECT_FALSE(check_schedule_option("BM", 1));
}

TEST(ScheduleOptions, TargetsObeyThoseThatAreForThem) {
  const auto obeyed = [](std::string_view target) {
    std::string out;
    for (const target::ScheduleOption& option : target::schedule_options()) {
      if (option.is_of(target)) out += (out.empty() ? "" : " ") + std::string(option.name);
    }
    return out;
  };
  EXPECT_EQ(obeyed("interp"), "");
  EXPECT_EQ(obeyed("cpu:znver5"), "split_k stream_k");
  EXPECT_EQ(obeyed("cuda:sm_90"), "num_warps num_stages split_k stream_k");
  EXPECT_EQ(obeyed("cuda"), obeyed("cuda:sm_90"));
  EXPECT_EQ(obeyed("cuda:sm_90a"), "num_warps num_stages warp_specialise split_k cluster stream_k");
  EXPECT_EQ(obeyed("cuda:sm_100a"), obeyed("cuda:sm_90a"));
  EXPECT_EQ(obeyed("cuda:sm_120a"), "num_warps num_stages warp_specialise split_k stream_k");
  EXPECT_EQ(obeyed("cuda:sm_120"), obeyed("cuda:sm_90"));
  EXPECT_EQ(obeyed("cuda:compute_121"), obeyed("cuda:sm_90"));
  EXPECT_EQ(obeyed("amd:gfx942"), "num_warps num_stages waves_per_eu chiplets split_k stream_k");
  EXPECT_EQ(obeyed(""), "num_warps num_stages waves_per_eu chiplets warp_specialise split_k cluster stream_k");
}

TEST(ScheduleOptions, TheTextFormHasNamesOfSchedulesAndTakesNumbers) {
  const std::string named = "space warp_specialise = [plain, producers, persistent, queue, ping_pong]";
  auto by_name = with_header(named), by_number = with_header("space warp_specialise = [0, 1, 2, 3, 4]");
  ASSERT_TRUE(by_name) << by_name.error().message;
  ASSERT_TRUE(by_number) << by_number.error().message;
  EXPECT_EQ(by_name->space[0].values, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(print(*by_name), print(*by_number));
  EXPECT_NE(print(*by_name).find(named), std::string::npos) << print(*by_name);
  auto defaults = with_header("defaults \"cuda:sm_90a\" {num_warps = 4, warp_specialise = ping_pong}");
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->target_defaults.at("cuda:sm_90a"),
            (ConstexprValues{{"num_warps", 4}, {"warp_specialise", target::value_of(target::Schedule::kPingPong)}}));
  EXPECT_NE(print(*defaults).find("warp_specialise = ping_pong"), std::string::npos) << print(*defaults);
}

TEST(ScheduleOptions, UnknownNamesAreRefusedWithThoseThatThereAre) {
  EXPECT_EQ(first_line(with_header("space warp_specialise = [fast]")),
            "k.kiln:2:28: error: `warp_specialise` cannot be `fast`; it must be 0 (plain), 1 (producers), "
            "2 (persistent), 3 (queue) or 4 (ping_pong)");
  EXPECT_EQ(first_line(with_header("space num_warps = [queue]")),
            "k.kiln:2:22: error: `num_warps` cannot be `queue`; it must be 1, 2, 4, 8, 16 or 32");
  EXPECT_EQ(first_line(with_header("constexpr B = 1\n  space B = [queue]")),
            "k.kiln:3:14: error: `B` cannot be `queue`; it must be an integer");
}

// A value that is not one of the schedules prints as it is, and the verifier refuses it.
TEST(ScheduleOptions, ValuesWithoutANameAreNumbers) {
  EXPECT_EQ(target::option_value_text("warp_specialise", 5), "5");
  EXPECT_EQ(target::option_value_text("warp_specialise", -1), "-1");
  EXPECT_EQ(target::option_value_text("num_warps", 2), "2");
  EXPECT_EQ(target::option_value_text("BM", 3), "3");
}

std::string targets_in_words(target::OptionTargets targets) {
  switch (targets) {
    case target::OptionTargets::kAll:
      return "all";
    case target::OptionTargets::kGpus:
      return "GPUs";
    case target::OptionTargets::kAmd:
      return "AMD GPUs";
    case target::OptionTargets::kSpecificNvidia:
      return "`cuda:sm_90a`, `sm_100a`, `sm_103a`, `sm_120a`, `sm_121a`";
    case target::OptionTargets::kClusteredNvidia:
      return "`cuda:sm_90a`, `sm_100a`, `sm_103a`";
  }
  return "";
}

// docs/reference/schedule.md has the rows of the table; each is printed as it must be.
TEST(ScheduleOptions, AreDocumentedAsInTheTable) {
  const std::string page = read_file(source_path("docs/reference/schedule.md"));
  const auto expect_row = [&](const std::string& row) {
    EXPECT_NE(page.find("\n" + row + "\n"), std::string::npos) << "docs/reference/schedule.md lacks the line\n" << row;
  };
  for (const target::ScheduleOption& option : target::schedule_options()) {
    const bool is_named = option.values == target::OptionValues::kNamed;
    expect_row("| `" + std::string(option.name) + "` | " + (is_named ? "a schedule" : option.allowed()) + " | " +
               targets_in_words(option.targets) + " | " + std::string(option.doc) + " |");
  }
  int64_t value = 0;
  for (const target::ScheduleInfo& schedule : target::schedules()) {
    expect_row("| " + std::to_string(value++) + " | `" + std::string(schedule.name) + "` | " +
               std::string(schedule.doc) + " |");
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
