// docs/reference/graph-ops.md is what the op table says, and docs/reference/graph-text.md names all that the parser
// knows. KILN_UPDATE_GOLDEN=1 writes the first anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "kiln/graph/ops.h"
#include "kiln/graph/text.h"

namespace kiln::graph {
namespace {

const std::string kPage = KILN_SOURCE_DIR "/docs/reference/graph-ops.md";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr const char* kHead = R"(# The ops of graphs

One entry for each row of `tensor_ops.def`, in its order, by family: ops of one family are typed, evaluated and lowered the same way. The
page is generated from the table; `graph_tests` compares it, and writes it anew with `KILN_UPDATE_GOLDEN=1`. The text form is
[graph-text.md](graph-text.md).

Elementwise ops take operands of one shape: the C++ functions insert `cast` and `broadcast`. An operand in brackets may be left out; one with
dots stands for any number. A *composite* is kept by name and has a decomposition into the others, the *primitives*.
)";

constexpr std::string_view kKinds[] = {"int",     "flag",    "float", "expr",   "shape", "ints",
                                       "element", "literal", "data",  "string", "body",  "kernel"};

std::string names(const std::vector<OperandInfo>& list) {
  std::string out;
  for (const OperandInfo& item : list) {
    out += out.empty() ? "" : ", ";
    out += item.optional ? "[" + item.name + "]" : item.name + (item.variadic ? "…" : "");
  }
  return out;
}

std::string attrs(const std::vector<AttrInfo>& list) {
  std::string out;
  for (const AttrInfo& attr : list) {
    out += (out.empty() ? "`" : ", `") + attr.name + "` ";
    if (attr.kind == AttrKind::kEnum) {
      std::string values;
      for (const std::string& value : attr.values) values += (values.empty() ? "" : " or ") + value;
      out += values;
    } else {
      out += kKinds[static_cast<size_t>(attr.kind)];
    }
    if (!attr.default_text) continue;
    out +=
        " (" + (attr.kind == AttrKind::kEnum ? attr.values[std::stoul(*attr.default_text)] : *attr.default_text) + ")";
  }
  return out;
}

std::string page() {
  std::string out = kHead;
  int family = -1;  // the one whose title stands
  std::optional<bool> composite;
  for (const OpInfo& op : op_table()) {
    // Composites come behind the primitives in the table, with families of their own order.
    if (composite != op.has(kComposite)) {
      composite = op.has(kComposite);
      family = -1;
      out += *composite ? "\n## Composites\n" : "\n## Primitives\n";
    }
    if (family != static_cast<int>(op.family)) {
      family = static_cast<int>(op.family);
      out += "\n### " + std::string(to_string(op.family)) + "\n";
    }
    out += "\n- **`" + op.name + "`** " + (op.operands.empty() ? "" : "(" + names(op.operands) + ") ") + "→ " +
           names(op.results);
    if (!op.attrs.empty()) out += " · " + attrs(op.attrs);
    if (op.has(kCommutes)) out += " · commutes";
    if (op.has(kRandom)) out += " · random";
    out += "\n\n  " + op.doc + "\n\n      " + op.example + "\n";
  }
  return out;
}

TEST(GraphOpsPage, IsWhatTheTableSays) {
  const std::string now = page();
  if (std::getenv("KILN_UPDATE_GOLDEN") != nullptr) std::ofstream(kPage, std::ios::binary) << now;
  EXPECT_EQ(read_file(kPage), now) << "docs/reference/graph-ops.md is not current: run graph_tests with "
                                      "KILN_UPDATE_GOLDEN=1";
}

TEST(GraphTextPage, HasEveryKindOfAttribute) {
  const std::string text = read_file(KILN_SOURCE_DIR "/docs/reference/graph-text.md");
  for (const std::string_view kind : kKinds) {
    EXPECT_NE(text.find("| " + std::string(kind) + " |"), std::string::npos) << kind;
  }
  EXPECT_NE(text.find("| enum |"), std::string::npos);
}

TEST(GraphTextPage, ItsExampleIsSound) {
  const std::string text = read_file(KILN_SOURCE_DIR "/docs/reference/graph-text.md");
  const size_t start = text.find("```\ndim ") + 4;
  const std::string example = text.substr(start, text.find("```", start) - start);
  const auto graph = parse(example, "graph-text.md");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph), example);
}

}  // namespace
}  // namespace kiln::graph
