// Manual pages and completions of a table that has what is hard: groups, delegates, names in roff's and shells' ways.
#include "kiln/cmdline/reference.h"

#include <gtest/gtest.h>

namespace kiln::cmdline {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class ReferenceTest : public ::testing::Test {
 protected:
  ReferenceTest() {
    app_.add_option("--level", level_, "'quoted', with \\ and .dots")->check(CLI::IsMember({"low", "high"}));
    CLI::App* show = app_.add_subcommand("show", ".npy files");
    show->add_option("file", file_, "What to show")->required();
    show->add_flag("-a,--all", all_, "It's all");
    auto* group = show->add_option_group("format");
    group->add_option("--width", width_, "Columns")->capture_default_str()->envname("WIDTH");
    app_.add_option("--secret", file_, "For tests")->group("");
    app_.add_subcommand("other", "Another program's words")->prefix_command();
  }

  CLI::App app_{"A program", "prog"};
  std::string level_, file_;
  bool all_ = false;
  int width_ = 80;
};

TEST_F(ReferenceTest, PagesHaveCommandsOptionsAndWhatBoundsThem) {
  const std::string page = manual_sections(app_, "my-prog");
  EXPECT_TRUE(has(page, ".SS \"my\\-prog show\"\n\\fBmy\\-prog show\\fR [\\fIOPTION\\fR]... \\fIfile\\fR\n")) << page;
  EXPECT_TRUE(has(page, "\\fB\\-a\\fR, \\fB\\-\\-all\\fR\nIt's all.\n")) << page;
  EXPECT_TRUE(has(page, "\\fB\\-\\-level\\fR \\fBlow\\fR|\\fBhigh\\fR\n")) << page;
  EXPECT_TRUE(has(page, "\\fB\\-\\-width\\fR \\fIINT\\fR\nColumns.\nDefault: \\fB80\\fR.\n")) << page;
  EXPECT_TRUE(has(page, "In the environment: \\fBWIDTH\\fR.\n")) << page;
  EXPECT_FALSE(has(page, "secret")) << page;
}

TEST_F(ReferenceTest, LinesOfAPageBeginNoRequestOfTheirOwn) {
  const std::string page = manual_sections(app_, "prog");
  EXPECT_TRUE(has(page, "\n\\&'quoted', with \\e and .dots.\n")) << page;
  EXPECT_TRUE(has(page, "\n\\&.npy files.\n")) << page;
}

TEST_F(ReferenceTest, TablesNameEachOptionOnce) {
  const std::string table = shell_tables(app_, "my-prog");
  EXPECT_TRUE(has(table, "_kiln_table_my_prog() {")) << table;
  EXPECT_TRUE(has(table, "'') kiln_commands='show other' kiln_options='-h --help --level' ;;")) << table;
  EXPECT_TRUE(has(table, "'show') kiln_commands='' kiln_options='-h --help -a --all --width' ;;")) << table;
  EXPECT_TRUE(has(table, "' --level') kiln_values='low high' ;;")) << table;
  EXPECT_TRUE(has(table, "'show --width') kiln_values='' ;;")) << table;
  EXPECT_FALSE(has(table, "'show --all')")) << "a flag takes no value: " << table;
}

TEST_F(ReferenceTest, FishHasDescriptionsInItsQuotes) {
  const std::string lines = fish_lines(app_, "prog");
  EXPECT_TRUE(has(lines, "complete -c prog -n '__kiln_at show' -s a -l all -d 'It\\'s all'\n")) << lines;
  EXPECT_TRUE(has(lines, "-l level -x -a 'low high' -d '\\'quoted\\', with \\\\ and .dots'\n")) << lines;
}

}  // namespace
}  // namespace kiln::cmdline
