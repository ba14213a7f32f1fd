// `debug = lines`: PTX says which line of a kernel's C++ source its instructions come from.
#include <gtest/gtest.h>

#include <regex>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernel.h"

namespace kiln::codegen::nvptx {
namespace {

namespace lang = dsl::lang;

constexpr int kStoreLine = __LINE__ + 5;
auto scaled() {
  return lang::kernel("scaled", {"x", "y"}, [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> y) {
    const lang::Value v = lang::load(x + lang::arange(0, 128));
    lang::check(v == v, "a number");
    lang::store(y + lang::arange(0, 128), v * 2);
  });
}

std::string ptx_of(const dsl::Kernel& kernel) {
  const auto request = dsl::encode_request({kernel, "cuda:sm_80", {}, {}, "ptx"});
  EXPECT_TRUE(request.ok()) << request.error().message;
  warm_up();
  const auto artifact = compile(request->canonical, request->debug, {});
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact.ok()) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

// Without what only names lines.
std::string without_lines(const std::string& ptx) {
  return std::regex_replace(ptx, std::regex("[^\n]*\\.(loc|file|section)[^\n]*\n|[^\n]*\\$L__(tmp|func)[^\n]*\n"), "");
}

TEST(DebugLines, NameTheLineOfTheCppSource) {
  const std::string ptx = ptx_of(*scaled().debug_lines().ir());
  std::smatch file;
  ASSERT_TRUE(std::regex_search(ptx, file, std::regex("\\.file\\s+(\\d+) \"[^\"]*lines_test\\.cpp\""))) << ptx;
  const size_t place = ptx.rfind(".loc", ptx.find("st.global"));
  ASSERT_NE(place, std::string::npos) << ptx;
  const std::string wanted = ".loc\t" + file[1].str() + " " + std::to_string(kStoreLine) + " ";
  EXPECT_EQ(ptx.substr(place, wanted.size()), wanted);
}

TEST(DebugLines, AloneLeaveTheCodeAsItIs) {
  const std::string plain = ptx_of(*scaled().ir()), lines = ptx_of(*scaled().debug_lines().ir());
  EXPECT_EQ(plain.find(".loc"), std::string::npos);
  EXPECT_EQ(plain.find("trap"), std::string::npos);
  EXPECT_EQ(without_lines(lines), without_lines(plain));
  EXPECT_NE(without_lines(ptx_of(*scaled().debug().ir())), without_lines(plain)) << "there the check is made";
}

}  // namespace
}  // namespace kiln::codegen::nvptx
