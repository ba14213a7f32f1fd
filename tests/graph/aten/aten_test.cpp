// The table of ATen operators: every op, attribute and name that its expressions mention is there, and the page shows
// it.
#include "aten/aten.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "kiln/graph/ops.h"

namespace kiln::graph {
namespace {

// Reads an expression of the table; the first thing that is wrong ends it.
class Reader {
 public:
  Reader(std::string_view text, std::set<std::string, std::less<>> names) : text_(text), names_(std::move(names)) {}

  // "" where all is well. `ops` are those that were named, `results` how many there are.
  std::string run() {
    while (error_.empty()) {
      const size_t start = at_;
      if (!definition()) {
        at_ = start;
        break;
      }
    }
    do {
      expression();
      ++results;
    } while (error_.empty() && take(','));
    skip();
    if (error_.empty() && at_ != text_.size()) fail("what follows is no expression");
    return error_;
  }

  std::set<TensorOp> ops;
  int results = 0;

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void fail(const std::string& what) {
    if (error_.empty()) error_ = what + " at \"" + std::string(text_.substr(at_)) + "\"";
  }
  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  // `a, b = expression;`
  bool definition() {
    std::vector<std::string> defined;
    do {
      defined.push_back(word());
      if (defined.back().empty()) return false;
    } while (take(','));
    if (!take('=')) return false;
    expression();
    if (!take(';')) fail("no ; behind a definition");
    names_.insert(defined.begin(), defined.end());
    return true;
  }

  void expression() {
    skip();
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) {
      const std::string rest(text_.substr(at_));
      char* end = nullptr;
      std::strtod(rest.c_str(), &end);
      at_ += static_cast<size_t>(end - rest.c_str());
      return;
    }
    const std::string name = word();
    if (name.empty()) return fail("no expression");
    const bool called = at_ < text_.size() && (text_[at_] == '(' || text_[at_] == '{');
    if (!called) {
      if (!names_.contains(name)) fail("`" + name + "` is neither an argument nor defined");
      return;
    }
    const auto op = parse_op(name);
    if (!op) return fail("there is no op `" + name + "`");
    ops.insert(*op);
    if (take('{')) attributes(info(*op));
    operands(info(*op));
  }

  void attributes(const OpInfo& op) {
    do {
      const std::string name = word();
      const AttrInfo* attr = nullptr;
      for (const AttrInfo& each : op.attrs) attr = each.name == name ? &each : attr;
      if (!attr) return fail(op.name + " has no attribute `" + name + "`");
      if (!take('=')) return fail("no value of `" + name + "`");
      // Up to the next attribute: words may have commas in brackets.
      std::string value;
      for (int depth = 0; at_ < text_.size() && (depth > 0 || (text_[at_] != ',' && text_[at_] != '}')); ++at_) {
        depth += text_[at_] == '[' ? 1 : text_[at_] == ']' ? -1 : 0;
        value += text_[at_];
      }
      const bool of_argument = names_.contains(value);
      const auto& values = attr->values;
      if (attr->kind == AttrKind::kEnum && !of_argument &&
          std::find(values.begin(), values.end(), value) == values.end()) {
        return fail(op.name + "." + name + " is never `" + value + "`");
      }
    } while (error_.empty() && take(','));
    if (error_.empty() && !take('}')) fail("no } behind attributes");
  }

  void operands(const OpInfo& op) {
    if (!error_.empty()) return;
    if (!take('(')) return fail("no operands of " + op.name);
    size_t count = 0;
    while (!take(')')) {
      if (count > 0 && !take(',')) return fail("no , between operands");
      expression();
      ++count;
      if (!error_.empty()) return;
    }
    size_t least = 0;
    bool any = false;
    for (const OperandInfo& operand : op.operands) {
      least += !operand.optional && !operand.variadic ? 1 : 0;
      any = any || operand.variadic;
    }
    if (count < least || (!any && count > op.operands.size())) fail(std::to_string(count) + " operands of " + op.name);
  }

  std::string_view text_;
  std::set<std::string, std::less<>> names_;
  size_t at_ = 0;
  std::string error_;
};

std::set<std::string, std::less<>> names_of(const AtenRow& row) {
  std::istringstream words{std::string(row.arguments)};
  std::set<std::string, std::less<>> out = {"seed", "offset"};
  for (std::string word; words >> word;) out.insert(word);
  return out;
}

TEST(Aten, EveryExpressionIsOfOpsOfTheTable) {
  for (const AtenRow& row : aten_table()) {
    SCOPED_TRACE(row.name);
    const bool computed = row.kind != AtenKind::kValue && row.kind != AtenKind::kNo;
    EXPECT_EQ(row.expression.empty(), !computed);
    if (!computed) {
      EXPECT_FALSE(row.note.empty()) << "why not";
      continue;
    }
    Reader reader(row.expression, names_of(row));
    EXPECT_EQ(reader.run(), "");
    const size_t composites = static_cast<size_t>(
        std::count_if(reader.ops.begin(), reader.ops.end(), [](TensorOp op) { return info(op).has(kComposite); }));
    EXPECT_EQ(reader.ops.empty(), row.kind == AtenKind::kNothing);
    EXPECT_TRUE(row.kind != AtenKind::kOp || composites == 0);
    EXPECT_TRUE(row.kind != AtenKind::kComposite || (composites == 1 && reader.ops.size() == 1));
  }
}

TEST(Aten, ReaderFindsMistakes) {
  const auto error = [](const char* text) { return Reader(text, {"self", "other"}).run(); };
  EXPECT_EQ(error("add(self, mul(other, 2.5))"), "");
  EXPECT_EQ(error("m, i = sort{axis=0}(self); add(m, i), neg(m)"), "");
  EXPECT_NE(error("plus(self, other)").find("there is no op `plus`"), std::string::npos);
  EXPECT_NE(error("add(self, alpha)").find("`alpha` is neither"), std::string::npos);
  EXPECT_NE(error("add(self)").find("1 operands of add"), std::string::npos);
  EXPECT_NE(error("reduce{kind=average}(self)").find("reduce.kind is never `average`"), std::string::npos);
  EXPECT_NE(error("reduce{dims=0}(self)").find("reduce has no attribute `dims`"), std::string::npos);
  EXPECT_NE(error("neg(self))").find("no expression"), std::string::npos);
}

TEST(Aten, NamesAreUniqueAndTheCoreIsWhole) {
  std::set<std::string_view> names;
  int core = 0;
  for (const AtenRow& row : aten_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.name.starts_with("aten::")) << row.name;
    core += row.core;
  }
  EXPECT_EQ(core, 193);
  ASSERT_NE(find_aten("aten::add.Tensor"), nullptr);
  EXPECT_EQ(find_aten("aten::add.Tensor")->arguments, "self other alpha");
  EXPECT_EQ(find_aten("aten::add"), nullptr);
}

// --- the page ---

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string table_of(bool core) {
  const std::map<AtenKind, std::string> kinds = {{AtenKind::kOp, "op"},           {AtenKind::kComposite, "composite"},
                                                 {AtenKind::kExpression, "ops"},  {AtenKind::kNothing, "itself"},
                                                 {AtenKind::kValue, "no tensor"}, {AtenKind::kNo, "no"}};
  std::string out = "| overload | becomes | expression | note |\n|---|---|---|---|\n";
  for (const AtenRow& row : aten_table()) {
    if (row.core != core) continue;
    out += "| `" + std::string(row.name) + "` | " + kinds.at(row.kind) + " | ";
    if (!row.expression.empty()) out += "`" + shown(row.expression) + "`";
    out += " | " + shown(row.note) + " |\n";
  }
  return out;
}

TEST(Aten, PageHasTheTable) {
  const std::string path = std::string(KILN_SOURCE_DIR) + "/docs/reference/graph-aten.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string page = text.str();
  for (const bool core : {true, false}) {
    const std::string begin = core ? "<!-- core -->\n" : "<!-- others -->\n", end = "<!-- end -->";
    const size_t from = page.find(begin);
    ASSERT_NE(from, std::string::npos) << begin;
    const size_t to = page.find(end, from);
    ASSERT_NE(to, std::string::npos);
    const size_t start = from + begin.size();
    if (std::getenv("KILN_UPDATE_GOLDEN"))
      page.replace(start, to - start, table_of(core));
    else
      EXPECT_EQ(page.substr(start, to - start), table_of(core)) << "KILN_UPDATE_GOLDEN=1 writes it anew";
  }
  if (std::getenv("KILN_UPDATE_GOLDEN")) std::ofstream(path) << page;
}

}  // namespace
}  // namespace kiln::graph
