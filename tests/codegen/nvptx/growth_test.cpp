// Kernels of very many ops for NVIDIA: the PTX of each grows as they do, no faster; what the lowering for GPUs makes of
// some computes what they say.
#include <gmock/gmock.h>

#include <sstream>

#include "grown.h"
#include "sized_kernels.h"

namespace kiln::test {
namespace {

size_t instructions(const std::string& ptx) {
  size_t count = 0;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line.back() != ';') continue;
    count += line[first] != '.' && line[first] != '/';
  }
  return count;
}

size_t instructions_of(const growth::Family& family, int count) {
  return instructions(code_of(grown(family, count), {}, "cuda:sm_90a", "ptx"));
}

// Enough for parts and for calls of long ops, where an op takes little time.
int first_count(const growth::Family& family) {
  const std::string name = family.name;
  if (family.most) return family.most / 2;
  if (name == "adds_f32") return 5000;
  if (name == "tanhs" || name == "stores") return 300;
  if (name == "cats") return 300;
  if (name == "sorts") return 8;
  if (name == "loops") return 200;  // the code of a hundred is shorter, once
  return std::min(family.tested, name == "scans" ? 300 : 1000) / 10;
}

class GrowthOnNvidia : public testing::TestWithParam<growth::Family> {};

// Of twice as many ops no more than two and a half times as many instructions: each may cost some more where tiles no
// longer fit registers, and what there is but once counts for less.
TEST_P(GrowthOnNvidia, CodeGrowsAsTheKernelDoes) {
  const growth::Family& family = GetParam();
  const int count = first_count(family);
  const size_t some = instructions_of(family, count), more = instructions_of(family, 2 * count);
  EXPECT_GT(some, 10u);
  EXPECT_GT(more, 10u);
  EXPECT_LE(2 * more, 5 * some) << some << ", then " << more;
}

INSTANTIATE_TEST_SUITE_P(Families, GrowthOnNvidia,
                         testing::ValuesIn(growth::families().begin(), growth::families().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// In instructions. An assembler takes longer for a long one than for as much in several.
size_t longest_function(const std::string& ptx) {
  size_t most = 0;
  for (size_t at = 0; at < ptx.size();) {
    const size_t end = std::min(ptx.find("\n}", at), ptx.size());
    most = std::max(most, instructions(ptx.substr(at, end - at)));
    at = end + 1;
  }
  return most;
}

struct Long {
  const char* family;
  int count;
};

class PartsOnNvidia : public testing::TestWithParam<Long> {};

// Of one warp, so that a block has several programs; of several, with products and barriers; in a loop.
TEST_P(PartsOnNvidia, NoFunctionIsLong) {
  const auto [name, count] = GetParam();
  const std::string ptx = code_of(grown(*growth::find_family(name), count), {}, "cuda:sm_90a", "ptx");
  EXPECT_GT(instructions(ptx), 5000u);
  EXPECT_LT(longest_function(ptx), 2500u);
}

INSTANTIATE_TEST_SUITE_P(Families, PartsOnNvidia,
                         testing::Values(Long{"adds_f32", 5000}, Long{"sums", 800}, Long{"scans", 300},
                                         Long{"masked_stores", 600}, Long{"taps", 600}, Long{"dots", 400},
                                         Long{"carried_products", 240}),
                         [](const auto& info) { return std::string(info.param.family); });

// So many products, each multiplied so often by what was there before, which is long enough for parts.
std::string ptx_of_products(int products, int factors, int64_t extent, int warps) {
  const TextKernel::Shape shape = {extent, extent};
  TextKernel k("%p: ptr<f32>, %x: bf16, %z: f32");
  const std::string a = k.splat("%x", shape), pointers = k.splat("%p", shape);
  std::string last = k.splat("%z", shape);
  for (int i = 0; i < products; ++i) {
    std::string x = k.op("dot " + a + ", " + a + ", " + last);
    for (int j = 0; j < factors; ++j) last = x = k.op("mul " + x + ", " + last);
  }
  k.line("store " + pointers + ", " + last);
  return code_of(parse_kernel(k.text()), {{"num_warps", warps}}, "cuda:sm_90a", "ptx");
}

// They are under way beside other code, which no call may come between.
TEST(SizeOnNvidia, ProductsOfSeveralWarpsStayInOneFunction) {
  const std::string ptx = ptx_of_products(300, 1, 64, 4);
  EXPECT_THAT(ptx, testing::HasSubstr("wgmma.mma_async"));
  EXPECT_THAT(ptx, testing::Not(testing::HasSubstr(".func")));
}

// All of what is computed beside few products is to be seen at once.
TEST(SizeOnNvidia, FewProductsStayInOneFunction) {
  const std::string ptx = ptx_of_products(2, 1500, 16, 1);
  EXPECT_THAT(ptx, testing::HasSubstr("mma.sync"));
  EXPECT_THAT(ptx, testing::Not(testing::HasSubstr(".func")));
}

// In parts the results of reductions do not all wait for the last, and the code is assembled once.
TEST(SizeOnNvidia, ManySumsSpillNothing) {
  const dsl::Kernel kernel = grown(*growth::find_family("sums"), 1000);
  initialise();
  const auto request = dsl::encode_request({kernel, "cuda:sm_90a", {}, {}});
  ASSERT_TRUE(request.ok()) << request.error().message;
  std::vector<std::string> phases;
  const auto artifact =
      codegen::compile(request->canonical, request->debug, [&](std::string_view phase) { phases.emplace_back(phase); });
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  if (artifact->metadata.emit == "ptx") GTEST_SKIP() << "no assembler";
  EXPECT_EQ(artifact->metadata.device->spill_bytes, 0);
  EXPECT_EQ(std::ranges::count(phases, "assemble"), 1);
}

}  // namespace
}  // namespace kiln::test
