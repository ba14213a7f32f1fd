// `kiln targets`: the list, the matrix of a target, an op across targets, and JSON; each is what the matrix says.
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli_helpers.h"
#include "kiln/target/capabilities.h"

namespace kiln::cli::testing {
namespace {

using dsl::ElementType;
using nlohmann::json;
using target::Capability;
using target::OpForm;
using target::Support;

class Targets : public CliTest {
 protected:
  std::string output_of(const std::vector<std::string>& words) const {
    const Outcome outcome = kiln(words);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// A table read back: cells by row and type, and the notes by number.
struct Table {
  std::map<std::string, std::map<std::string, std::string>> cells;
  std::map<std::string, std::string> notes;
};

Table read_table(const std::vector<std::string>& lines, const std::string& heading) {
  Table out;
  const auto head =
      std::ranges::find_if(lines, [&](const std::string& line) { return line.starts_with(heading + " "); });
  EXPECT_NE(head, lines.end());
  std::map<std::string, size_t> columns;
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const std::string type(dsl::info(static_cast<ElementType>(i)).name);
    columns[type] = head->find(" " + type, heading.size()) + 1;
  }
  const size_t first = columns.at("i1");
  auto line = head + 1;
  for (; line != lines.end() && !line->empty(); ++line) {
    std::string name = line->substr(0, first);
    name.erase(name.find_last_not_of(' ') + 1);
    for (const auto& [type, column] : columns) {
      out.cells[name][type] = line->substr(column, line->find(' ', column) - column);
    }
  }
  for (; line != lines.end(); ++line) {
    const size_t space = line->find(' ');
    if (space != std::string::npos) out.notes[line->substr(0, space)] = line->substr(space + 1);
  }
  return out;
}

void expect_cell(const Table& table, const std::string& row, ElementType element, const Capability& has) {
  const std::string type(dsl::info(element).name);
  const std::string& cell = table.cells.at(row).at(type);
  static constexpr std::string_view kLetters = "ne-.";
  ASSERT_FALSE(cell.empty()) << row << " " << type;
  EXPECT_EQ(cell[0], kLetters[static_cast<size_t>(has.support)]) << row << " " << type;
  const bool is_noted = !has.how.empty() && has.support != Support::kAbsent;
  EXPECT_EQ(cell.size() > 1, is_noted) << row << " " << type;
  if (is_noted) {
    EXPECT_EQ(table.notes.at(cell.substr(1)), has.how) << row << " " << type;
  }
}

TEST_F(Targets, TheListHasThemAllWithWhereTheyRan) {
  const std::vector<std::string> lines = lines_of(output_of({"targets"}));
  const std::vector<target::NamedTarget> all = target::named_targets();
  ASSERT_EQ(lines.size(), all.size() + 1);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(lines[i + 1].starts_with(all[i].name + " ")) << lines[i + 1];
  const auto line_of = [&](const std::string& name) {
    return *std::ranges::find_if(lines, [&](const std::string& line) { return line.starts_with(name + " "); });
  };
  EXPECT_NE(line_of("cuda:sm_90a").find("32 lanes, 2048 threads, 228 KiB of shared memory"), std::string::npos);
  EXPECT_TRUE(line_of("cuda:sm_90a").ends_with(" H100, H200"));
  EXPECT_TRUE(line_of("cuda:sm_100a").ends_with(" nothing yet"));
  EXPECT_NE(line_of("amd:gfx942").find("64 lanes"), std::string::npos);
  EXPECT_NE(line_of("cpu:x86-64-v4").find("vectors of 64 bytes, FMA, F16C"), std::string::npos);
}

TEST_F(Targets, TheMatrixOfATargetIsWhatTheTableSays) {
  for (const char* name : {"cpu:x86-64-v2", "cuda:sm_90a", "amd:gfx1100"}) {
    const std::vector<std::string> lines = lines_of(output_of({"targets", name}));
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(lines[0].starts_with(std::string(name) + ": ")) << lines[0];
    const Table table = read_table(lines, "op");
    EXPECT_EQ(table.cells.size(), target::op_forms().size());
    const target::Processor processor = target::find_target(name)->processor;
    for (const OpForm& form : target::op_forms()) {
      for (int i = 0; i < dsl::kElementTypeCount; ++i) {
        const auto element = static_cast<ElementType>(i);
        expect_cell(table, to_string(form), element, capability(form, element, processor));
      }
    }
  }
}

TEST_F(Targets, AnOpAcrossAllOfThem) {
  const Table table = read_table(lines_of(output_of({"targets", "--op", "dot_scaled"})), "dot_scaled");
  ASSERT_EQ(table.cells.size(), target::named_targets().size());
  for (const target::NamedTarget& each : target::named_targets()) {
    expect_cell(table, each.name, ElementType::kU8,
                capability({dsl::OpCode::kDotScaled}, ElementType::kU8, each.processor));
  }
  // One choice of several, by either spelling; and all of them.
  const std::string tf32 = output_of({"targets", "--op", "dot tf32"});
  EXPECT_TRUE(tf32.starts_with("dot tf32 ")) << tf32;
  EXPECT_EQ(output_of({"targets", "--op", "dot.tf32"}), tf32);
  EXPECT_NE(output_of({"targets", "--op", "dot"}).find(tf32), std::string::npos);
  EXPECT_EQ(read_table(lines_of(output_of({"targets", "gfx942", "--op", "dot"})), "op").cells.size(), 4u);
  EXPECT_EQ(read_table(lines_of(output_of({"targets", "gfx942", "sm_80", "--op", "add"})), "add").cells.size(), 2u);
}

TEST_F(Targets, AsJsonEachCell) {
  const json list = json::parse(output_of({"targets", "--json"}));
  ASSERT_EQ(list.size(), target::named_targets().size());
  EXPECT_EQ(list[0]["target"], target::named_targets()[0].name);
  EXPECT_FALSE(list[0].contains("ops"));
  const json matrix = json::parse(output_of({"targets", "gfx950", "--json"}));
  ASSERT_EQ(matrix.size(), 1u);
  const target::Processor processor = target::find_target("gfx950")->processor;
  for (const OpForm& form : target::op_forms()) {
    for (int i = 0; i < dsl::kElementTypeCount; ++i) {
      const auto element = static_cast<ElementType>(i);
      const Capability has = capability(form, element, processor);
      const json& cell = matrix[0]["ops"][to_string(form)][std::string(dsl::info(element).name)];
      EXPECT_EQ(cell["support"], to_string(has.support)) << to_string(form);
      EXPECT_EQ(cell.value("how", ""), has.how) << to_string(form);
      EXPECT_EQ(cell.value("instruction", ""), has.instruction) << to_string(form);
    }
  }
}

TEST_F(Targets, AreNamedAsPeopleDo) {
  EXPECT_EQ(output_of({"targets", "gfx942"}), output_of({"targets", "amd:gfx942"}));
  EXPECT_NE(output_of({"targets", "cpu:x86-64-v3,+avxvnni", "--op", "dot ieee"}),
            output_of({"targets", "cpu:x86-64-v3", "--op", "dot ieee"}));
  EXPECT_TRUE(output_of({"targets", "cpu", "--op", "add"}).starts_with("cpu: "));
  expect_error({"targets", "sm_95"}, "the nearest are sm_90 and sm_100");
  expect_error({"targets", "cpu:pentium"}, "of CPUs the table has x86-64-v2");
  expect_error({"targets", "--op", "histogramm"}, "there is no op `histogramm`; the nearest is histogram;");
  expect_error({"targets", "--op", "math gamma"}, "there is no op `math gamma`");
}

// KILN_UPDATE_GOLDEN=1 writes the page's block anew.
TEST_F(Targets, ThePageShowsWhatTheCommandPrints) {
  const std::string path = KILN_SOURCE_DIR "/docs/reference/capabilities.md";
  std::ifstream file(path);
  std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string command = "    $ kiln targets --op \"dot ieee\"\n";
  const size_t begin = page.find(command);
  ASSERT_NE(begin, std::string::npos);
  std::string block = command;
  for (const std::string& line : lines_of(output_of({"targets", "--op", "dot ieee"}))) {
    block += (line.empty() ? "" : "    " + line) + "\n";
  }
  if (std::getenv("KILN_UPDATE_GOLDEN") != nullptr) {
    const size_t end = page.find("\n##", begin);
    page.replace(begin, std::min(end, page.size()) - begin, block);
    std::ofstream(path) << page;
  }
  EXPECT_NE(page.find(block), std::string::npos) << block;
}

}  // namespace
}  // namespace kiln::cli::testing
