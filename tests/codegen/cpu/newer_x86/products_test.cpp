// Products by units of x86-64 processors that are not at hand: AMX of f8, f16 and tf32, and AVX10.2. The kernel's LLVM
// IR calls functions of C in place of intrinsics (units.c), Clang makes it code for this machine, and the result is
// compared with sums in f64. Machine code is looked at for the mnemonic. Skipped, with the reason, where Clang is
// missing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "run_elsewhere.h"
#include "sampled.h"
#include "small_products.h"

namespace kiln::test {
namespace {

constexpr const char* kClang = KILN_CLANG_OF_TESTS;  // "" where there is none
constexpr ElementType kI8 = ElementType::kI8, kU8 = ElementType::kU8, kF16 = ElementType::kF16,
                      kF32 = ElementType::kF32, kBF16 = ElementType::kBF16, kE4M3 = ElementType::kF8E4M3,
                      kE5M2 = ElementType::kF8E5M2;

// vpdpbssd and its like of vectors of `lanes` sums, by way of memory.
std::string function_of_quads(const std::string& name, int lanes) {
  const std::string sums = "<" + std::to_string(lanes) + " x i32>", bytes = "<" + std::to_string(4 * lanes) + " x i8>";
  return "define internal " + sums + " @kiln_quads_" + name + "_" + std::to_string(lanes) + "(" + sums + " %s, " +
         bytes + " %a, " + bytes + " %b) {\n  %ps = alloca " + sums + "\n  %pa = alloca " + bytes +
         "\n  %pb = alloca " + bytes + "\n  store " + sums + " %s, ptr %ps\n  store " + bytes +
         " %a, ptr %pa\n  store " + bytes + " %b, ptr %pb\n  call void @kiln_unit_" + name +
         "(ptr %ps, ptr %pa, ptr %pb, i32 " + std::to_string(lanes) + ")\n  %r = load " + sums + ", ptr %ps\n  ret " +
         sums + " %r\n}\n";
}

// The IR with calls of units.c. Linux is not asked for tiles.
std::string emulated_ir(std::string ir) {
  const auto replace = [&](const char* what, const char* with) { ir = std::regex_replace(ir, std::regex(what), with); };
  replace("declare [^\n]*@llvm\\.x86\\.[^\n]*\n", "");
  replace("call i64 asm sideeffect \"syscall\"[^\n]*", "add i64 0, 0");
  replace("@llvm\\.x86\\.(?:avx512|avx10|avx2)\\.(vpdpb[a-z]+)\\.512", "@kiln_quads_$1_16");
  replace("@llvm\\.x86\\.(?:avx512|avx10|avx2)\\.(vpdpb[a-z]+)\\.256", "@kiln_quads_$1_8");
  replace("@llvm\\.x86\\.(t[a-z0-9]+|ldtilecfg)", "@kiln_unit_$1");
  for (const char* name : {"vpdpbssd", "vpdpbuud", "vpdpbusd"}) {
    ir += "declare void @kiln_unit_" + std::string(name) + "(ptr, ptr, ptr, i32)\n";
    for (int lanes : {8, 16}) ir += function_of_quads(name, lanes);
  }
  std::string declarations =
      "declare void @kiln_unit_ldtilecfg(ptr)\ndeclare void @kiln_unit_tilerelease()\n"
      "declare void @kiln_unit_tilezero(i8)\n";
  for (const char* name : {"tileloadd64", "tilestored64"})
    declarations += "declare void @kiln_unit_" + std::string(name) + "(i8, ptr, i64)\n";
  for (const char* name : {"tdpbf16ps", "tdpfp16ps", "tdphf8ps", "tdpbf8ps", "tdphbf8ps", "tdpbhf8ps", "tmmultf32ps",
                           "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"})
    declarations += "declare void @kiln_unit_" + std::string(name) + "(i8, i8, i8)\n";
  return ir + declarations;
}

struct UnitCase {
  const char* name;
  Product product;
  const char* target;
  const char* mnemonic;
  double most = 1e-6;  // of error_of
};

class OnNewerX86 : public testing::TestWithParam<UnitCase> {
 protected:
  void SetUp() override {
    if (*kClang == 0) GTEST_SKIP() << "clang is not installed";
    static const bool warm = (codegen::warm_up(), true);
    (void)warm;
    std::string name = (std::filesystem::temp_directory_path() / "kiln-newer-x86-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  static Result<Artifact> compiled(const Case& test, const char* emit) {
    auto request = dsl::encode_request({test.kernel, GetParam().target, test.config, test.facts, emit});
    if (!request) return request.error();
    return codegen::compile(request->canonical, request->debug, {});
  }
  static std::string text_of_code(const Artifact& artifact) {
    return {reinterpret_cast<const char*>(artifact.code.data()), artifact.code.size()};
  }

  Result<std::vector<Input>> emulated(const Case& test) const {
    auto artifact = compiled(test, "llvm");
    if (!artifact) return artifact.error();
    const std::string ir = (directory_ / "kernel.ll").string(), library = (directory_ / "kernel.so").string();
    const std::string units = (directory_ / "units.o").string(), clang = std::string(kClang) + " -w -O1 -fPIC -o ";
    std::ofstream(ir) << emulated_ir(text_of_code(*artifact));
    if (!std::filesystem::exists(units)) {
      if (auto built = output_of(clang + units + " -c " + KILN_UNITS); !built) return built.error();
    }
    if (auto built = output_of(clang + library + " -shared " + ir + " " + units); !built) return built.error();
    return run_elsewhere(test, artifact->metadata, (directory_ / "case").string(), [&](const std::string& arguments) {
      return output_of(std::string(KILN_RUNNER) + " " + library + " " + arguments);
    });
  }

 private:
  std::filesystem::path directory_;
};

TEST_P(OnNewerX86, ProductsAreRight) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{8, 16, 64}, {9, 7, 5}, {33, 47, 65}, {17, 64, 130}}) {
    Product t = GetParam().product;
    t.m = m, t.n = n, t.k = k;
    for (const bool transposed : sampled(std::vector<bool>{false, true}, 1)) {
      t.b_transposed = transposed;
      SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + (transposed ? "^T" : ""));
      const Case test = case_of(t, static_cast<uint64_t>(m + n + k));
      auto done = emulated(test);
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_LE(error_of(t, test.inputs, (*done)[2]), dsl::is_float(t.a) ? GetParam().most : 0);
    }
  }
}

TEST_P(OnNewerX86, ProductsAreOfTheInstruction) {
  Product t = GetParam().product;
  t.m = t.n = t.k = 64;
  auto artifact = compiled(case_of(t, 1), "asm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_NE(text_of_code(*artifact).find("\t" + std::string(GetParam().mnemonic)), std::string::npos);
}

constexpr const char* kNewest = "cpu:diamondrapids";
const Product kTf32Product{kF32, kF32, 1, 1, 1, false, "tf32"};
const UnitCase kCases[] = {
    {"e4m3", {kE4M3, kE4M3, 1, 1, 1}, kNewest, "tdphf8ps"},
    {"e5m2", {kE5M2, kE5M2, 1, 1, 1}, kNewest, "tdpbf8ps"},
    {"f16", {kF16, kF16, 1, 1, 1}, "cpu:graniterapids", "tdpfp16ps"},
    {"tf32", kTf32Product, kNewest, "tmmultf32ps", 2e-3},
    {"bf16", {kBF16, kBF16, 1, 1, 1}, "cpu:sapphirerapids", "tdpbf16ps"},
    {"i8_u8", {kI8, kU8, 1, 1, 1}, "cpu:sapphirerapids", "tdpbsud"},
    {"i8_by_vectors", {kI8, kI8, 1, 1, 1}, "cpu:diamondrapids;dot-i8=vnni", "vpdpbssd"},
    {"u8_by_vectors", {kU8, kU8, 1, 1, 1}, "cpu:diamondrapids;dot-i8=vnni", "vpdpbuud"},
    {"i8_u8_by_vectors", {kI8, kU8, 1, 1, 1}, "cpu:diamondrapids;dot-i8=vnni", "vpdpbusd"},
    {"i8_of_256_bits", {kI8, kI8, 1, 1, 1}, "cpu:sierraforest", "vpdpbssd"},
    {"u8_moved", {kU8, kU8, 1, 1, 1}, "cpu:cascadelake", "vpdpbusd"},
};
INSTANTIATE_TEST_SUITE_P(Units, OnNewerX86, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln::test
