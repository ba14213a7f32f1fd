// Where the sums of a dot are kept (docs/cpu-codegen.md).
#include <regex>

#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

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

}  // namespace
}  // namespace kiln::test
