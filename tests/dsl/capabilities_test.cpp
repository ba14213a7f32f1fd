// The capability matrix by itself: each cell has a rule, each rule a cell, and it agrees with what else is said of ops
// and targets. tests/codegen/capabilities holds it against code.
#include "kiln/target/capabilities.h"

#include <gtest/gtest.h>

#include <set>

#include "kiln/dsl/text.h"
#include "target/rules.h"
#include "text_helpers.h"

namespace kiln::target {
namespace {

using dsl::ElementType;
using dsl::OpCode;

const std::vector<Family> kFamilies = {Family::kX86, Family::kAarch64, Family::kNvidia, Family::kAmd};

// Those of the table, and units that are asked for.
std::vector<NamedTarget> all_targets() {
  std::vector<NamedTarget> out = named_targets();
  out.push_back(*find_target("cpu:znver4;dot-bf16=vdpbf16ps"));
  out.push_back(*find_target("cpu:neoverse-v2;dot-bf16=bfdot"));
  return out;
}

template <class Visit>
void for_each_cell(const Visit& visit) {
  for (const OpForm& form : op_forms()) {
    for (int i = 0; i < dsl::kElementTypeCount; ++i) visit(form, static_cast<ElementType>(i));
  }
}

std::string name_of(const OpForm& form, ElementType element) {
  return to_string(form) + " of " + std::string(dsl::info(element).name);
}

TEST(Capabilities, EachWordOfARuleNamesSomething) {
  for (Family family : kFamilies) {
    for (std::span<const Rule> rules : rules_of(family)) {
      for (const Rule& rule : rules) EXPECT_EQ(unknown_word(rule), "") << rule.forms << " of " << rule.types;
    }
  }
  EXPECT_EQ(unknown_word({"add sub", "i8", nullptr, Support::kNative, "", ""}), "");
  EXPECT_EQ(unknown_word({"ad", "i8", nullptr, Support::kNative, "", ""}), "ad");
  EXPECT_EQ(unknown_word({"math.exp,exp3", "i8", nullptr, Support::kNative, "", ""}), "math.exp3");
  EXPECT_EQ(unknown_word({"add", "i8 int", nullptr, Support::kNative, "", ""}), "int");
}

TEST(Capabilities, SayOfEachCellHowAndOfWhatIsNativeNoMore) {
  for (const NamedTarget& target : all_targets()) {
    for_each_cell([&](const OpForm& form, ElementType element) {
      const Capability has = capability(form, element, target.processor);
      SCOPED_TRACE(target.name + ": " + name_of(form, element));
      EXPECT_EQ(has.how.find("the table does not say"), std::string::npos);
      EXPECT_TRUE(has.support == Support::kNative || !has.how.empty());
      const bool is_computed = has.support == Support::kNative || has.support == Support::kEmulated;
      EXPECT_TRUE(is_computed || has.instruction.empty());
    });
  }
}

// No rule stands behind others that say it all.
TEST(Capabilities, EachRuleIsTheFirstForSomeCell) {
  std::set<const Rule*> used;
  for (const NamedTarget& target : all_targets()) {
    for_each_cell([&](const OpForm& form, ElementType element) {
      if (const Rule* rule = rule_for(form, element, target.processor)) used.insert(rule);
    });
  }
  for (Family family : kFamilies) {
    for (std::span<const Rule> rules : rules_of(family)) {
      for (const Rule& rule : rules) EXPECT_TRUE(used.contains(&rule)) << rule.forms << " of " << rule.types;
    }
  }
}

TEST(Capabilities, WhatTheLanguageLacksIsSaidByTheTypeRules) {
  const Processor cpu;
  EXPECT_EQ(capability({OpCode::kFma}, ElementType::kI32, cpu).support, Support::kAbsent);
  EXPECT_EQ(capability({OpCode::kFma}, ElementType::kI32, cpu).how, "takes floats only");
  EXPECT_EQ(capability({OpCode::kAtomicRmw, static_cast<int64_t>(dsl::AtomicKind::kAnd)}, ElementType::kF32, cpu).how,
            "and, or and xor are for ints");
  EXPECT_EQ(capability({OpCode::kProgramId}, ElementType::kF32, cpu).how, "is i32");
}

// The traits of the op table say which ops CPUs do not lower; what no target lowers a pass takes away.
TEST(Capabilities, WhatIsRefusedIsWhatTheTraitsSay) {
  for (const NamedTarget& target : all_targets()) {
    for_each_cell([&](const OpForm& form, ElementType element) {
      const Capability has = capability(form, element, target.processor);
      if (has.support == Support::kAbsent) return;
      const dsl::OpInfo& op = dsl::info(form.op);
      const bool is_lowered = is_gpu(target.processor.family) || !op.has(dsl::kNoCpu) || op.has(dsl::kNoGpu);
      EXPECT_EQ(has.support == Support::kRefused, !is_lowered) << target.name << ": " << name_of(form, element);
    });
  }
}

TEST(Capabilities, FollowTheUnitsOfARow) {
  const auto support = [](const char* target, const OpForm& form, ElementType element) {
    return capability(form, element, find_target(target)->processor).support;
  };
  const OpForm fma{OpCode::kFma}, dot{OpCode::kDot}, scaled{OpCode::kDotScaled};
  const OpForm to_f16{OpCode::kCast, static_cast<int64_t>(ElementType::kF16)};
  EXPECT_EQ(support("x86-64-v2", fma, ElementType::kF32), Support::kEmulated);
  EXPECT_EQ(support("x86-64-v3", fma, ElementType::kF32), Support::kNative);
  EXPECT_EQ(support("x86-64-v2", to_f16, ElementType::kF32), Support::kEmulated);
  EXPECT_EQ(support("x86-64-v4", to_f16, ElementType::kF32), Support::kNative);
  EXPECT_EQ(support("x86-64-v3", dot, ElementType::kI8), Support::kEmulated);
  EXPECT_EQ(support("x86-64-v3,+avxvnni", dot, ElementType::kI8), Support::kNative);
  EXPECT_EQ(support("x86-64-v3,+avxvnni;dot-i8=widen", dot, ElementType::kI8), Support::kEmulated);
  EXPECT_EQ(support("sapphirerapids,-amx-bf16", dot, ElementType::kBF16), Support::kEmulated);
  EXPECT_EQ(support("sm_90a", dot, ElementType::kF8E4M3), Support::kNative);
  EXPECT_EQ(support("sm_80", dot, ElementType::kF8E4M3), Support::kEmulated);
  EXPECT_EQ(support("sm_120a", scaled, ElementType::kU8), Support::kNative);
  EXPECT_EQ(support("gfx942", scaled, ElementType::kU8), Support::kEmulated);
  EXPECT_EQ(support("gfx950", scaled, ElementType::kU8), Support::kNative);
}

TEST(Capabilities, ReductionsAreAsTheOpThatTheyCombineBy) {
  const Processor amd = find_target("gfx942")->processor;
  const auto reduce = [&](dsl::ReduceKind kind, ElementType element) {
    return capability({OpCode::kReduce, static_cast<int64_t>(kind)}, element, amd);
  };
  EXPECT_EQ(reduce(dsl::ReduceKind::kSum, ElementType::kF32).support, Support::kNative);
  EXPECT_EQ(reduce(dsl::ReduceKind::kMax, ElementType::kF32).how, "a choice for NaN");
  EXPECT_EQ(reduce(dsl::ReduceKind::kSum, ElementType::kF16).how, "through f32");  // though an add of f16 is native
}

TEST(OpForms, HaveNamesOfTheirOwnAndAreFoundInKernels) {
  std::set<std::string> names;
  for (const OpForm& form : op_forms()) EXPECT_TRUE(names.insert(to_string(form)).second) << to_string(form);
  EXPECT_TRUE(names.contains("add") && names.contains("math exp") && names.contains("cast f16") &&
              names.contains("atomic_rmw xchg") && names.contains("dot tf32"));
  const auto kernel = dsl::parse(R"(kernel k(%x: ptr<bf16>, %y: ptr<f16>) {
  %v = load %x
  %w = cast %v {to = f16}
  store %y, %w
})",
                                 "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  std::string found;
  for (const dsl::Op& op : kernel->body.ops) found += name_of(form_of(op), element_of(*kernel, op)) + "\n";
  EXPECT_EQ(found, "load of bf16\ncast f16 of bf16\nstore of f16\n");
}

TEST(NamedTargets, AreFoundWithAndWithoutTheirFamily) {
  for (const NamedTarget& target : named_targets()) {
    EXPECT_EQ(find_target(target.name)->name, target.name);
    EXPECT_EQ(find_target(target.name.substr(target.name.find(':') + 1))->name, target.name);
  }
  const auto error_of = [](const char* name) { return find_target(name).error().message; };
  EXPECT_NE(error_of("sm_95").find("the nearest are sm_90 and sm_100"), std::string::npos);
  EXPECT_NE(error_of("cpu:cortex-a76").find("of CPUs the table has x86-64-v2, "), std::string::npos);
  EXPECT_NE(error_of("cpu:sapphirerapid").find("the nearest is sapphirerapids; of CPUs the table has"),
            std::string::npos);
  EXPECT_NE(error_of("cpu:x86-64-v3,avx").find("`avx` is no feature with a sign"), std::string::npos);
  EXPECT_NE(error_of("cpu:x86-64-v3;dot=amx").find("`dot=amx` is no option"), std::string::npos);
  EXPECT_NE(error_of("tpu:v5").find("a target is of cpu, cuda or amd"), std::string::npos);
  EXPECT_LT(error_of(std::string(100000, 'x').c_str()).size(), 500u);
  EXPECT_FALSE(find_target("").ok());
}

TEST(NamedTargets, HaveVectorsOfTheLengthThatTheirNameSays) {
  const auto bits_of = [](const char* name) { return find_target(name)->processor.cpu.sve_bits; };
  EXPECT_EQ(bits_of("neoverse-n1"), 0);
  EXPECT_EQ(bits_of("neoverse-v1"), 256);
  EXPECT_EQ(bits_of("neoverse-v1;sve=128"), 128);
  EXPECT_EQ(bits_of("neoverse-v2"), 128);
  EXPECT_EQ(bits_of("neoverse-v2;sve=512"), 512);
  EXPECT_EQ(bits_of("neoverse-v1,-sve"), 0);
  EXPECT_FALSE(find_target("neoverse-n1;sve=256").ok());
  EXPECT_FALSE(find_target("neoverse-v1;sve=384").ok());
}

TEST(NamedTargets, WhereCodeHasRunIsAsInTheGuide) {
  std::set<std::string> names;
  for (const NamedTarget& target : named_targets()) names.insert(target.name);
  for (const std::string& target : targets_that_ran()) EXPECT_TRUE(names.contains(target)) << target;
  EXPECT_EQ(run_on("cuda:sm_90a"), "H100, H200");
  std::istringstream guide(dsl::testing::read_file(dsl::testing::source_path("docs/inside/gpu/nvidia.md")));
  std::set<std::string> seen;
  for (std::string line; std::getline(guide, line);) {
    for (const NvidiaGpu& gpu : nvidia_gpus()) {
      const std::string name(gpu.name);
      if (line.find("`" + name + "`") == std::string::npos && line.find("`cuda:" + name + "`") == std::string::npos)
        continue;
      if (!line.starts_with("| `")) continue;
      const std::string_view where = run_on("cuda:" + name);
      EXPECT_TRUE(line.ends_with("| " + std::string(where.empty() ? "nothing yet" : where) + " |")) << name << line;
      seen.insert(name);
    }
  }
  EXPECT_EQ(seen.size(), nvidia_gpus().size());
}

}  // namespace
}  // namespace kiln::target
