// The op table is complete: each op has type rules, an example that parses and prints back, and its place in the docs.
#include "kiln/dsl/ops.h"

#include <map>
#include <set>

#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

// The example of an op inside a kernel that defines what it mentions. Most take float tiles; `preludes` has the others.
std::string example_kernel(const OpInfo& op) {
  static const std::map<std::string, std::string> preludes = {
      {"splat", "%x = constant {value = 1.0, type = f32}"},
      {"broadcast", "%s = constant {value = 1.0, type = f32} %x = splat %s {shape = [1, BN]}"},
      {"expand_dims", "%s = constant {value = 1.0, type = f32} %x = splat %s {shape = [BN]}"},
      {"permute", "%s = constant {value = 1.0, type = f32} %x = splat %s {shape = [BM, BN]}"},
      {"rem", "%x = arange {start = 0, end = BLOCK} %y = arange {start = 0, end = BLOCK}"},
      {"shl", "%x = arange {start = 0, end = BLOCK} %y = arange {start = 0, end = BLOCK}"},
      {"shr", "%x = arange {start = 0, end = BLOCK} %y = arange {start = 0, end = BLOCK}"},
      {"and", "%s = constant {value = 1, type = i1} %x = splat %s {shape = [BLOCK]} %y = splat %s {shape = [BLOCK]}"},
      {"or", "%s = constant {value = 1, type = i1} %x = splat %s {shape = [BLOCK]} %y = splat %s {shape = [BLOCK]}"},
      {"xor", "%s = constant {value = 1, type = i1} %x = splat %s {shape = [BLOCK]} %y = splat %s {shape = [BLOCK]}"},
      {"cast", "%x = arange {start = 0, end = BLOCK}"},
      {"addptr", "%o = arange {start = 0, end = BLOCK} %p = splat %P {shape = [BLOCK]}"},
      {"load",
       "%q = splat %P {shape = [BLOCK]} %z = splat %F {shape = [BLOCK]} %s = constant {value = 1, type = i1} "
       "%m = splat %s {shape = [BLOCK]}"},
      {"store",
       "%q = splat %P {shape = [BLOCK]} %x = splat %F {shape = [BLOCK]} %s = constant {value = 1, type = i1} "
       "%m = splat %s {shape = [BLOCK]}"},
      {"select",
       "%x = splat %F {shape = [BLOCK]} %y = splat %F {shape = [BLOCK]} %s = constant {value = 1, type = i1} "
       "%m = splat %s {shape = [BLOCK]}"},
      {"dot", "%a = splat %F {shape = [BM, BN]} %b = splat %F {shape = [BN, BN]} %acc = splat %F {shape = [BM, BN]}"},
      {"for",
       "%lo = constant {value = 0, type = i32} %hi = constant {value = 9, type = i32} %st = constant {value = 1, "
       "type = i32} %init = splat %F {shape = [BLOCK]}"},
      {"program_id", ""},
      {"num_programs", ""},
      {"constant", ""},
      {"arange", ""},
      {"assume", ""},
      {"require", ""},
      {"yield", "%z = constant {value = 0, type = i32} %r = for %k = %z to %n step %n carry (%x = %F) {"},
  };
  auto prelude = preludes.find(op.name);
  std::string body =
      prelude != preludes.end()
          ? prelude->second
          : "%x = splat %F {shape = [BLOCK]} %y = splat %F {shape = [BLOCK]} %w = splat %F {shape = [BLOCK]}";
  std::string example = op.example;
  // The loop's example stands for any body.
  if (size_t dots = example.find("…"); dots != std::string::npos) {
    example.replace(dots, std::string("…").size(), "%next = add %acc, %acc");
  }
  if (op.name == "yield") example += " }";
  return "kernel k(%P: ptr<f32>, %F: f32, %n: i32) {\n  constexpr BLOCK = 16 constexpr BM = 16 constexpr BN = 8 "
         "constexpr BK = 32\n  " +
         body + "\n  " + example + "\n}";
}

TEST(Ops, EveryExampleParsesVerifiesAndPrintsBack) {
  for (const OpInfo& op : op_table()) {
    SCOPED_TRACE(op.name);
    const Kernel kernel = parsed(example_kernel(op));
    const std::string text = print(kernel);
    EXPECT_EQ(print(parsed(text)), text);
    EXPECT_NE(text.find(op.name), std::string::npos);
  }
}

// Ops that have a heading in docs/ops.md; several may share one: ### `min` `max`.
std::set<std::string> documented_ops() {
  std::set<std::string> out;
  std::istringstream text(read_file(source_path("docs/ops.md")));
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("### `")) continue;
    std::istringstream words(line.substr(4));
    for (std::string word; words >> word;) out.insert(word.substr(1, word.size() - 2));
  }
  return out;
}

TEST(Ops, EveryOpIsInTheDocs) {
  const std::string grammar = read_file(source_path("docs/kiln-text.md"));
  const std::set<std::string> meanings = documented_ops();
  for (const OpInfo& op : op_table()) {
    EXPECT_NE(grammar.find("\n" + op.example + "\n"), std::string::npos) << op.example;
    EXPECT_TRUE(meanings.count(op.name)) << op.name;
  }
}

TEST(Ops, DocsNameNoOpThatDoesNotExist) {
  for (const std::string& name : documented_ops()) EXPECT_TRUE(parse_op(name)) << name;
}

TEST(Ops, NamesAreUniqueAndFoundAgain) {
  for (const OpInfo& op : op_table()) {
    EXPECT_EQ(parse_op(op.name), op.code);
    EXPECT_EQ(info(op.code).name, op.name);
    EXPECT_FALSE(op.doc.empty()) << op.name;
  }
  EXPECT_FALSE(parse_op("no_such_op"));
}

TEST(Ops, EnumsMatchTheTable) {
  auto values = [](OpCode code, const char* name) {
    for (const AttrInfo& attr : info(code).attrs) {
      if (attr.name == name) return attr.values;
    }
    return std::vector<std::string>{};
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(values(OpCode::kCmp, "pred"), (Names{"eq", "ne", "lt", "le", "gt", "ge"}));
  EXPECT_EQ(values(OpCode::kCmp, "pred")[static_cast<size_t>(Predicate::kGe)], "ge");
  EXPECT_EQ(values(OpCode::kMath, "fn").size(), static_cast<size_t>(MathFn::kTrunc) + 1);
  EXPECT_EQ(values(OpCode::kMath, "fn")[static_cast<size_t>(MathFn::kRsqrt)], "rsqrt");
  EXPECT_EQ(values(OpCode::kMath, "fn")[static_cast<size_t>(MathFn::kTrunc)], "trunc");
  EXPECT_EQ(values(OpCode::kDot, "precision"), (Names{"ieee", "tf32"}));
  EXPECT_EQ(values(OpCode::kReduce, "kind"), (Names{"sum", "prod", "min", "max"}));
  EXPECT_EQ(static_cast<int>(Precision::kTf32), 1);
  EXPECT_EQ(static_cast<int>(ReduceKind::kMax), 3);
}

}  // namespace
}  // namespace kiln::dsl::testing
