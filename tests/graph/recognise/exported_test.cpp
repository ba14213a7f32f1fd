// Graphs that PyTorch 2.15.0 exported, of its own layers and of what models write out: exported/*.kg, by
// tests/graph/pytorch/export_models.py. found.txt says which composites, with which attributes and operands, are left
// of each; KILN_UPDATE_GOLDEN=1 writes it anew.
#include <filesystem>
#include <fstream>
#include <random>

#include "kiln/graph/text.h"
#include "recognise/recognising.h"

namespace kiln::graph::recognising {
namespace {

const std::string kFolder = KILN_SOURCE_DIR "/tests/graph/recognise/exported/";

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

// "attention causal=1 mask": attributes that are not the defaults, and optional operands that are there.
std::string described(const Graph& graph, const Node& node) {
  const OpInfo& op = info(node.op);
  std::string out = op.name;
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const Attr& attr = graph.attrs(node)[i];
    const auto usual = default_attr(op.attrs[i]);
    if (usual && same(AttrList{attr}, AttrList{*usual})) continue;
    std::string value;
    char text[40];
    if (const auto* number = std::get_if<int64_t>(&attr)) value = std::to_string(*number);
    if (const auto* number = std::get_if<double>(&attr)) {
      std::snprintf(text, sizeof text, "%.3g", *number);  // rounded to the type, or not
      value = text;
    }
    if (const auto* axes = std::get_if<std::vector<int64_t>>(&attr)) {
      for (const int64_t axis : *axes) value += (value.empty() ? "" : ",") + std::to_string(axis);
    }
    out += " " + op.attrs[i].name + "=" + value;
  }
  const auto operands = graph.main().operands_of(node);
  for (size_t i = 0; i < op.operands.size() && i < operands.size(); ++i) {
    if (op.operands[i].optional && operands[i] != kNoValue) out += " " + op.operands[i].name;
  }
  return out;
}

// Each composite once, with how many there are.
std::string composites(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.main().nodes) {
    if (info(node.op).has(kComposite)) ++counts[described(graph, node)];
  }
  std::string out;
  for (const auto& [text, count] : counts) {
    out += (out.empty() ? "" : "; ") + text + (count > 1 ? " ×" + std::to_string(count) : "");
  }
  return out.empty() ? "nothing" : out;
}

TEST(RecogniseExported, FindsComposites) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".kg") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_GT(names.size(), 80u);
  std::string found;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto graph = parse(content(kFolder + name + ".kg"), name + ".kg");
    ASSERT_TRUE(graph) << graph.error().message;
    const auto after = recognise(*graph);
    ASSERT_TRUE(after) << after.error().message;
    found += name + ": " + composites(after->graph) + "\n";
    const bool half = content(kFolder + name + ".kg").find("bf16") != std::string::npos;
    expect_same_numbers(*graph, after->graph, half ? 2e-2 : 2e-5);
  }
  if (std::getenv("KILN_UPDATE_GOLDEN")) std::ofstream(kFolder + "found.txt") << found;
  EXPECT_EQ(found, content(kFolder + "found.txt"));
}

// What is found does not depend on extents being numbers.
TEST(RecogniseExported, FindsTheSameWhereExtentsAreDims) {
  std::istringstream lines(content(kFolder + "found.txt"));
  std::map<std::string, std::string> found;
  for (std::string line; std::getline(lines, line);)
    found[line.substr(0, line.find(':'))] = line.substr(line.find(':'));
  const std::string mark = "_dynamic_";
  int compared = 0;
  for (const auto& [name, composites] : found) {
    const size_t at = name.find(mark);
    if (at == std::string::npos) continue;
    EXPECT_EQ(composites, found[std::string(name).replace(at, mark.size(), "_")]) << name;
    ++compared;
  }
  EXPECT_GE(compared, 70);
}

// What only looks like a composite.
TEST(RecogniseExported, LeavesNearMisses) {
  std::istringstream lines(content(kFolder + "found.txt"));
  int misses = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("not_")) continue;
    ++misses;
    // "not_layer_norm_core", "not_layer_norm_dynamic_core": no composite of this name is there.
    std::string name = line.substr(4, line.rfind('_', line.find(':')) - 4);
    if (name.ends_with("_dynamic")) name.resize(name.rfind('_'));
    EXPECT_EQ(line.find(" " + name, line.find(':')), std::string::npos) << line;
  }
  EXPECT_GE(misses, 20);
}

}  // namespace
}  // namespace kiln::graph::recognising
