// The op table is complete: each op has type rules, an example that parses and prints back, and its place in the docs.
#include "kiln/dsl/ops.h"

#include <map>
#include <set>

#include "op_examples.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

TEST(Ops, EveryExampleParsesVerifiesAndPrintsBack) {
  for (const OpInfo& op : op_table()) {
    SCOPED_TRACE(op.name);
    const Kernel kernel = parsed(example_kernel(op));
    const std::string text = print(kernel);
    EXPECT_EQ(print(parsed(text)), text);
    EXPECT_NE(text.find(op.name), std::string::npos);
  }
}

// Ops that have a heading in docs/reference/ops.md; several may share one: ### `min` `max`.
std::set<std::string> documented_ops() {
  std::set<std::string> out;
  std::istringstream text(read_file(source_path("docs/reference/ops.md")));
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("### `")) continue;
    std::istringstream words(line.substr(4));
    for (std::string word; words >> word;) out.insert(word.substr(1, word.size() - 2));
  }
  return out;
}

TEST(Ops, EveryOpIsInTheDocs) {
  const std::string grammar = read_file(source_path("docs/reference/kiln-text.md"));
  const std::set<std::string> meanings = documented_ops();
  for (const OpInfo& op : op_table()) {
    EXPECT_NE(grammar.find("\n" + op.example + "\n"), std::string::npos) << op.example;
    EXPECT_TRUE(meanings.count(op.name)) << op.name;
  }
}

// The heading above each op of docs/reference/ops.md: "## Arithmetic" of `add`.
std::map<std::string, std::string> sections_of_docs() {
  std::map<std::string, std::string> out;
  std::istringstream text(read_file(source_path("docs/reference/ops.md")));
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    if (!line.starts_with("### `")) continue;
    std::istringstream words(line.substr(4));
    for (std::string word; words >> word;) out[word.substr(1, word.size() - 2)] = section;
  }
  return out;
}

// An op in a wrong family would go a wrong way through type rules, interpreter and backends.
TEST(Ops, TheOpsOfAFamilyAreOfOneSection) {
  std::map<OpFamily, std::string> section_of;
  const std::map<std::string, std::string> sections = sections_of_docs();
  for (const OpInfo& op : op_table()) {
    const std::string& section = sections.at(op.name);
    EXPECT_EQ(section_of.try_emplace(op.family, section).first->second, section) << op.name;
  }
  EXPECT_EQ(section_of.size(), static_cast<size_t>(OpFamily::kAsm) + 1);
}

TEST(Ops, TraitsFitEachOther) {
  for (const OpInfo& op : op_table()) {
    SCOPED_TRACE(op.name);
    if (op.has(kWrites)) {
      EXPECT_TRUE(op.has(kEffect));
    }
    if (op.has(kPure)) {
      EXPECT_FALSE(op.has(kReads) || op.has(kWrites) || op.has(kEffect) || op.has(kTerminator));
    }
    if (op.has(kElementwise)) {
      EXPECT_TRUE(op.has(kPure));
    }
    if (op.has(kExpensive)) {
      EXPECT_TRUE(op.has(kElementwise));
    }
    if (op.has(kMovesElements)) {
      EXPECT_TRUE(op.has(kPure) && !op.has(kElementwise));
      EXPECT_EQ(op.operands.size(), 1u);
    }
    // What a pass takes away, no target lowers; all else GPUs lower.
    EXPECT_EQ(op.has(kNoGpu), op.family == OpFamily::kDescribed);
    if (op.has(kNoGpu)) {
      EXPECT_TRUE(op.has(kNoCpu));
    }
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
  // The first, the last, and one between: an insertion or a swap in one of the two shows.
  auto expect = [&](OpCode code, const char* attr, auto last, std::string_view last_name) {
    const std::vector<std::string> names = values(code, attr);
    ASSERT_EQ(names.size(), static_cast<size_t>(last) + 1) << attr;
    EXPECT_EQ(names.back(), last_name);
  };
  expect(OpCode::kCmp, "pred", Predicate::kGe, "ge");
  expect(OpCode::kMath, "fn", MathFn::kIsinf, "isinf");
  expect(OpCode::kDot, "precision", Precision::kBf16x3, "bf16x3");
  expect(OpCode::kReduce, "kind", ReduceKind::kCustom, "custom");
  expect(OpCode::kScan, "kind", ReduceKind::kCustom, "custom");
  expect(OpCode::kCast, "rounding", Rounding::kStochastic, "stochastic");
  expect(OpCode::kLoad, "cache", CacheHint::kStreaming, "streaming");
  expect(OpCode::kStore, "cache", CacheHint::kStreaming, "streaming");
  expect(OpCode::kLoad, "eviction", Eviction::kLast, "last");
  expect(OpCode::kAtomicRmw, "kind", AtomicKind::kXchg, "xchg");
  expect(OpCode::kReduceTile, "kind", AtomicKind::kXor, "xor");
  expect(OpCode::kAtomicRmw, "order", MemoryOrder::kRelease, "release");
  expect(OpCode::kAtomicCas, "scope", MemoryScope::kSystem, "system");
  expect(OpCode::kDescriptor, "fill", Fill::kNan, "nan");
  EXPECT_EQ(values(OpCode::kMath, "fn")[static_cast<size_t>(MathFn::kRsqrt)], "rsqrt");
  EXPECT_EQ(values(OpCode::kMath, "fn")[static_cast<size_t>(MathFn::kCopysign)], "copysign");
  EXPECT_EQ(values(OpCode::kReduce, "kind")[static_cast<size_t>(ReduceKind::kArgmin)], "argmin");
  EXPECT_EQ(values(OpCode::kReduce, "kind"), values(OpCode::kScan, "kind"));
}

TEST(Ops, DefaultsAreOfTheirKind) {
  for (const OpInfo& op : op_table()) {
    for (const AttrInfo& attr : op.attrs) {
      if (!attr.default_value) continue;
      EXPECT_NE(attr.kind, AttrKind::kString) << op.name;
      if (attr.kind == AttrKind::kEnum) {
        EXPECT_LT(*attr.default_value, static_cast<int64_t>(attr.values.size())) << op.name;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
