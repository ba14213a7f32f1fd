// Where the sums of a dot are kept (docs/inside/cpu/products.md).
#include <regex>

#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;

// The micro-kernel's calls, which name where sums come from and where they go.
std::vector<std::smatch> calls_in(const std::string& llvm) {
  static const std::regex call(
      R"(call void @kiln\.dot\.\S+\(.*ptr (\S+), i64 (\S+), ptr (\S+), i64 (\S+), ptr poison)");
  return {std::sregex_iterator(llvm.begin(), llvm.end(), call), std::sregex_iterator()};
}

// In the last turn to C itself: also where facts say more of C, which are no uses of it.
TEST(DotAccumulator, GoesToMemoryWithFactsAsWithout) {
  const dsl::Kernel& kernel = *kernels::matmul().ir();
  const dsl::ConstexprValues config = {{"BM", 64}, {"BN", 64}, {"BK", 64}};
  dsl::Facts facts(kernel.params.size(), dsl::ParamFact::kNone);
  for (const bool known : {false, true}) {
    for (size_t i = 0; i < 3 && known; ++i) facts[i] = dsl::ParamFact::kAlign16;
    for (size_t i = 3; i < 6 && known; ++i) facts[i] = dsl::ParamFact::kMultiple16;
    auto artifact = compile(kernel, config, facts, "cpu:x86-64-v4", "llvm");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
    const auto calls = calls_in(text);
    EXPECT_FALSE(calls.empty());
    for (const std::smatch& call : calls) EXPECT_NE(call[1], call[3]) << call[0] << (known ? ", with facts" : "");
  }
}

// A pointer that is chosen may be that of an operand, which later columns of the product still read.
TEST(DotAccumulator, StaysInScratchWhereTheStoreMayReachAnOperand) {
  const auto def =
      lang::kernel("onto_a", {"a", "b", "c", "n"},
                   [](lang::Ptr<lang::f32> a, lang::Ptr<const lang::f32> b, lang::Ptr<lang::f32> c, lang::i32 n) {
                     lang::grid(1);
                     const lang::Value out = lang::where(n > 0, a, c);
                     lang::Var acc = lang::zeros(lang::f32_t, {64, 128});
                     for (lang::Value k : lang::range(0, 128, 64)) {
                       acc = lang::dot(lang::tile(a, {64, 128}).load({0, k}, {64, 64}),
                                       lang::tile(b, {128, 128}).load({k, 0}, {64, 128}), acc);
                     }
                     lang::tile(out, {64, 128}).store({0, 0}, acc);
                   });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  for (const int64_t n : {0, 1}) {
    Trial run;
    run.arguments = {random_buffer(dsl::ElementType::kF32, 64 * 128, 1, false),
                     random_buffer(dsl::ElementType::kF32, 128 * 128, 2, false),
                     random_buffer(dsl::ElementType::kF32, 64 * 128, 3, false), int_scalar(n)};
    run.match = {1e-5, 1e-4, true};
    run.targets = cpu_targets();
    expect_same(*def.ir(), "", run);
  }
}

}  // namespace
}  // namespace kiln::test
