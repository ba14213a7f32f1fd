// `debug = lines` on CPUs: a line table, and the kernel's name as the entry's. The code is what it was.
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "growth/families.h"
#include "harness.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "sampled.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;

constexpr int kMean = __LINE__ + 4, kStore = kMean + 1;
auto centred() {
  return lang::kernel("centred", {"x", "y"}, [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> y) {
    const lang::Value v = lang::load(x + lang::arange(0, 128));
    const lang::Value mean = lang::sum(v, 0) / 128.0f;
    lang::store(y + lang::arange(0, 128), lang::exp(v - mean));
  });
}

dsl::Kernel with_lines(dsl::Kernel kernel) {
  kernel.options.lines = true;
  return kernel;
}

std::string assembly_of(const dsl::Kernel& kernel, const std::string& target) {
  const auto artifact = compile(kernel, {}, {}, target, "asm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact.ok()) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

// Sections of debugging, what only names lines, and the labels that these need.
std::string code_in(const std::string& assembly) {
  static const std::regex kLines(
      "\t\\.(loc|file|cfi_\\w+)\\b[^\n]*\n|\\.Ltmp\\d+:\n|\\.Lfunc_(begin|end)\\d+:\n|kiln_\\w+|[ \t]*#[^\n]*|"
      "\\.Lfunc_end\\d+-\\S+|\\.L\\w+|\t\\.size[^\n]*\n");
  const std::string text = assembly.substr(0, assembly.find("\t.section\t.debug_"));
  return std::regex_replace(text.substr(0, text.find("\t.section\t\".note")), kLines, "");
}

std::set<int> lines_of(const std::string& assembly, const std::string& file) {
  std::set<int> out;
  std::smatch number;
  const std::regex table("\\.file\t(\\d+) (?:\"[^\"]*\" )?\"[^\"]*" + file + "\"");
  if (!std::regex_search(assembly, number, table)) return out;
  const std::regex line("\\.loc\t" + number[1].str() + " (\\d+) ");
  for (std::sregex_iterator it(assembly.begin(), assembly.end(), line), end; it != end; ++it) {
    out.insert(std::stoi((*it)[1]));
  }
  return out;
}

TEST(CpuLines, AreThoseOfTheCppSource) {
  const std::string assembly = assembly_of(with_lines(*centred().ir()), "cpu:x86-64-v3");
  const std::set<int> lines = lines_of(assembly, "lines_test\\.cpp");
  EXPECT_TRUE(lines.contains(kMean) && lines.contains(kStore)) << assembly;
  // The load of the line before is an operand of the sum's.
  for (const int line : lines) EXPECT_TRUE(line == 0 || (line >= kMean - 1 && line <= kStore)) << line;
}

// The store, and not what it stores, stands where it is written.
TEST(CpuLines, AreOfEachOpThatAWalkEvaluates) {
  const dsl::Kernel kernel = with_lines(*dsl::parse(R"(kernel k(%x: ptr<f32> readonly, %y: ptr<f32>) {
  %i = arange {start = 0, end = 8}
  %xs = splat %x {shape = [8]}
  %xp = addptr %xs, %i
  %v = load %xp
  %w = math %v {fn = sqrt}
  %ys = splat %y {shape = [8]}
  %yp = addptr %ys, %i
  store %yp, %w
})",
                                                    "walk.kiln"));
  const std::string assembly = assembly_of(kernel, "cpu:x86-64-v3");
  const auto line_before = [&](const std::string& instruction) {
    const size_t place = assembly.rfind(".loc\t", assembly.find(instruction));
    return place == std::string::npos ? "" : assembly.substr(place, assembly.find('\n', place) - place);
  };
  EXPECT_THAT(line_before("vsqrtps"), testing::MatchesRegex("\\.loc\t[0-9]+ 6 .*")) << assembly;
  EXPECT_THAT(line_before("vmovups\t%ymm"), testing::MatchesRegex("\\.loc\t[0-9]+ 9 .*")) << assembly;
}

TEST(CpuLines, NameTheEntryAsTheKernel) {
  const dsl::Kernel kernel = *dsl::parse("kernel a.b(%x: ptr<f32>) {\n  %v = load %x\n  store %x, %v\n}\n", "k.kiln");
  for (const bool lines : {false, true}) {
    for (const auto& [emit, entry] : std::map<std::string, std::string>{
             {"so", lines ? "kiln_a_b" : "kiln_entry"}, {"asm", lines ? "kiln_a_b" : "kiln_entry"}, {"so:c", "c"}}) {
      const auto artifact = compile(lines ? with_lines(kernel) : kernel, {}, {}, "cpu:x86-64-v3", emit);
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      EXPECT_EQ(artifact->metadata.entry, entry) << emit;
    }
  }
}

// All of a kernel's functions: micro-kernels of products, sorts, functions that ops call.
TEST(CpuLines, AloneLeaveTheCodeAsItIs) {
  std::vector<std::string_view> names;
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) names.push_back(kernel.name);
  for (const std::string_view name : sampled(names, 4)) {
    const auto found = std::ranges::find(dsl::library_kernels(), name, &dsl::LibraryKernel::name);
    const dsl::Kernel& kernel = **found->ir;
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
      const std::string plain = assembly_of(kernel, target), lines = assembly_of(with_lines(kernel), target);
      EXPECT_EQ(plain.find(".loc"), std::string::npos) << name;
      EXPECT_NE(lines.find(".loc"), std::string::npos) << name;
      EXPECT_EQ(code_in(lines), code_in(plain)) << name << " " << target;
    }
  }
}

// Long code is cut into functions; each has the lines that its instructions had.
TEST(CpuLines, AreOfThePartsOfLongCode) {
  const growth::Family* family = growth::find_family("stores");
  ASSERT_NE(family, nullptr);
  const dsl::Kernel kernel = with_lines(*dsl::parse(dsl::print(*family->kernel(600)), "long.kiln"));
  const auto artifact = compile(kernel, {}, {}, "cpu:x86-64-v3", "llvm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string code(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  EXPECT_THAT(code, testing::ContainsRegex("define internal i32 @kiln_grown.part[^\n]* !dbg "));
  const std::regex place("!DILocation\\(line: (\\d+), ");
  std::set<std::string> lines;
  for (std::sregex_iterator it(code.begin(), code.end(), place), end; it != end; ++it) lines.insert((*it)[1]);
  EXPECT_GT(lines.size(), 600u);
}

}  // namespace
}  // namespace kiln::test
