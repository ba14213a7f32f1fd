// `kiln print`, `verify`, `hash`, `export-library`, `cache`, and the C header of a shared object.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "c_header.h"
#include "cli_helpers.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/text.h"

namespace kiln::cli::testing {
namespace {

class KernelFile : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("axpy.kiln", kAxpy);
  }
};

TEST_F(KernelFile, PrintGivesTheUsualForm) {
  const Outcome outcome = kiln({"print", "axpy.kiln"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(outcome.output.starts_with("kernel axpy(")) << outcome.output;
  write("again.kiln", outcome.output);
  EXPECT_EQ(kiln({"print", "again.kiln"}).output, outcome.output);
}

TEST_F(KernelFile, VerifySaysSo) {
  const Outcome outcome = kiln({"verify", "axpy.kiln"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "axpy.kiln: kernel `axpy` is valid\n");
}

// A kernel's file may be anybody's, and a terminal obeys what it is shown.
TEST_F(KernelFile, WhatAFileSaysIsNoEscapeSequence) {
  write("evil.kiln", "kernel k(%n: i32) {\n  print %n {message = \"\\x1b]0;owned\\x07 \xc2\x9b 2J\"}\n}\n");
  write("wrong\x1b[31m.kiln", "kernel \x1b]0;owned\x07\xc2\x9b 2J");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"print", "evil.kiln"},
                                                {"run", "evil.kiln", "--target", "interp", "n=1"},
                                                {"verify", "evil.kiln"},
                                                {"verify", "wrong\x1b[31m.kiln"},
                                                {"run", "missing\x1b[31m.kiln"},
                                                {"cache", "ls", "--dir", "\x1b[31m"},
                                                {"reproduce", "\x1b[31m/x"}}) {
    const Outcome outcome = kiln(words);
    for (const std::string& text : {outcome.output, outcome.errors}) {
      const bool c0 = std::any_of(text.begin(), text.end(), [](unsigned char byte) {
        return byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t');
      });
      EXPECT_FALSE(c0 || text.find("\xc2\x9b") != std::string::npos) << words[0] << "\n" << text;
    }
    EXPECT_FALSE(outcome.output.empty() && outcome.errors.empty()) << words[0];
  }
  EXPECT_NE(kiln({"run", "evil.kiln", "--target", "interp", "n=1"}).output.find("]0;owned  ? 2J"), std::string::npos);
  // What is printed is the kernel still.
  const std::string printed = kiln({"print", "evil.kiln"}).output;
  EXPECT_NE(printed.find("\\x1b]0;owned\\x07 \\xc2\\x9b 2J"), std::string::npos) << printed;
  write("again.kiln", printed);
  EXPECT_EQ(kiln({"print", "again.kiln"}).output, printed);
}

TEST_F(KernelFile, HashNamesKernelAndConfigButNotSpelling) {
  const std::string hash = kiln({"hash", "axpy.kiln"}).output;
  EXPECT_EQ(hash.size(), 65u) << hash;
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef\n"), std::string::npos) << hash;
  EXPECT_EQ(kiln({"hash", "axpy.kiln", "--set", "BLOCK=4"}).output, hash);
  EXPECT_NE(kiln({"hash", "axpy.kiln", "--set", "BLOCK=8"}).output, hash);
  EXPECT_NE(kiln({"hash", "axpy.kiln", "--facts", "n=x16"}).output, hash);
  std::string renamed = kAxpy;
  for (size_t at; (at = renamed.find("%start")) != std::string::npos;) renamed.replace(at, 6, "%first");
  write("renamed.kiln", "\n\n" + renamed);
  EXPECT_EQ(kiln({"hash", "renamed.kiln"}).output, hash);
}

TEST_F(KernelFile, ExportedLibraryIsValid) {
  ASSERT_EQ(kiln({"export-library", "library"}).code, 0);
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(path("library"))) {
    const Outcome outcome = kiln({"verify", file.path().string()});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    ++count;
  }
  EXPECT_GE(count, 8u);
}

TEST_F(KernelFile, CacheOfNothing) {
  expect_error({"cache", "ls"}, "no such cache directory");
  std::filesystem::create_directories(path("cache/v1/0123456789abcdef/ab"));
  EXPECT_EQ(kiln({"cache", "ls"}).output, "");
  EXPECT_EQ(kiln({"cache", "verify"}).output, "0 entries, 0 damaged\n");
  // A file with the name of an entry that is none.
  const std::string name = "cache/v1/0123456789abcdef/ab/" + std::string(62, '0');
  write(name, "garbage");
  const Outcome damaged = kiln({"cache", "verify"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.output.find("1 entries, 1 damaged"), std::string::npos) << damaged.output;
  EXPECT_EQ(kiln({"cache", "clear"}).output, "1 entries removed\n");
  EXPECT_FALSE(exists(name));
}

TEST(CHeader, DeclaresTheParametersInTheirOrder) {
  auto kernel =
      dsl::parse("kernel k(%x: ptr<bf16> readonly, %y: ptr<f32>, %n: i32, %flag: i1, %s: f64) {\n}\n", "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const std::string header = c_header(
      *kernel, *abi::metadata_of({{"entry", "kiln_entry"}, {"scratch_bytes", 4096}, {"grid", {"n", "1", "1"}}}));
  const char* expected = R"(typedef struct k_params {
  const uint16_t* x;  /* ptr<bf16> */
  float* y;  /* ptr<f32> */
  int32_t n;  /* i32 */
  uint8_t flag;  /* i1 */
  double s;  /* f64 */
} k_params;

enum { k_scratch_bytes = 4096 };)";
  EXPECT_NE(header.find(expected), std::string::npos) << header;
  EXPECT_NE(header.find("Grid: n x 1 x 1."), std::string::npos) << header;
}

TEST_F(KernelFile, HeadersHaveNoNamesThatCHasForItselfOrThatClash) {
  auto kernel = dsl::parse(
      "kernel k.v2(%int: i32, %register: ptr<f32>, %true: i1, %int32_t: i64, %INT32_MAX: i32, %a.b: f32, %a_b: f32,\n"
      "            %class: i8, %KILN_OK: i8, %_X: i8, %x__y: i8, %mint: i8, %int_: i8) {\n}\n",
      "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const std::string header = c_header(*kernel, *abi::metadata_of({{"entry", "kiln_entry"}}));
  const char* expected = R"(typedef struct k_v2_params {
  int32_t int__;  /* int: i32 */
  float* register_;  /* register: ptr<f32> */
  uint8_t true_;  /* true: i1 */
  int64_t int32_t_;  /* int32_t: i64 */
  int32_t INT32_MAX_;  /* INT32_MAX: i32 */
  float a_b_;  /* a.b: f32 */
  float a_b;  /* f32 */
  int8_t class_;  /* class: i8 */
  int8_t p_KILN_OK;  /* KILN_OK: i8 */
  int8_t p__X;  /* _X: i8 */
)";
  EXPECT_NE(header.find(expected), std::string::npos) << header;
  write("k.h", header);
  const std::string flags = " -Wall -Wextra -Werror -fsyntax-only -x ";
  const std::string file = " '" + path("k.h") + "'";
  EXPECT_EQ(std::system((KILN_C_COMPILER + flags + "c -std=gnu11" + file).c_str()), 0) << header;
  EXPECT_EQ(std::system((KILN_CXX_COMPILER + flags + "c++ -std=gnu++20" + file).c_str()), 0) << header;
  EXPECT_NE(header.find("  int8_t mint;  /* i8 */\n  int8_t int_;  /* i8 */\n"), std::string::npos) << header;
}

// Headers of two kernels, and the header that they repeat, in any order.
TEST_F(KernelFile, HeadersGoTogetherWithEachOtherAndTheAbi) {
  for (const char* name : {"k", "m"}) {
    auto kernel = dsl::parse(std::string("kernel ") + name + "(%n: i32) {\n}\n", "k.kiln");
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    write(std::string(name) + ".h", c_header(*kernel, *abi::metadata_of({{"entry", std::string(name) + "_entry"}})));
  }
  const std::string abi = "#include \"kiln/abi/cpu_abi.h\"\n", both = "#include \"k.h\"\n#include \"m.h\"\n";
  write("first.c", abi + both + "uint64_t bytes(void) { return sizeof(kiln_ctx); }\n");
  write("last.c", both + abi + "uint64_t bytes(void) { return sizeof(kiln_ctx); }\n");
  const std::string flags = " -Wall -Wextra -Werror -fsyntax-only -I '" + path(".") + "' -I " KILN_DSL_INCLUDE " -x ";
  for (const char* file : {"first.c", "last.c"}) {
    const std::string quoted = " '" + path(file) + "'";
    EXPECT_EQ(std::system((KILN_C_COMPILER + flags + "c -std=gnu11" + quoted).c_str()), 0) << file;
    EXPECT_EQ(std::system((KILN_CXX_COMPILER + flags + "c++ -std=gnu++20" + quoted).c_str()), 0) << file;
  }
}

TEST(CHeader, DeclaresTheStagesOfAPlan) {
  auto kernel = dsl::parse("kernel k(%n: i32) {\n}\n", "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const nlohmann::json plan = {{{"entry", "kiln_stage_0"}, {"chunks", 4}}, {{"entry", "kiln_entry"}, {"chunks", 1}}};
  const std::string header = c_header(*kernel, *abi::metadata_of({{"plan", plan}, {"workspace_bytes", 128}}));
  EXPECT_NE(header.find("enum { k_workspace_bytes = 128 };\n/* chunks: 4 */\nint32_t kiln_stage_0("), std::string::npos)
      << header;
  EXPECT_NE(header.find("/* chunks: 1 */\nint32_t kiln_entry("), std::string::npos) << header;
}

}  // namespace
}  // namespace kiln::cli::testing
