// Spaces: declared, stated and derived; which configs of them are valid.
#include "kiln/autotune/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kiln/dsl/kernels.h"

namespace kiln::autotune {
namespace {

const dsl::Kernel& matmul() { return *kernels::matmul<lang::bf16>().ir(); }
const dsl::Kernel& softmax() { return *kernels::softmax<lang::f32>().ir(); }

std::vector<std::string> names(const Space& space) {
  std::vector<std::string> out;
  for (const dsl::SpaceAxis& axis : space.axes) out.push_back(axis.name);
  return out;
}

std::vector<Config> configs_of(const dsl::Kernel& kernel, const std::string& target, const nlohmann::json& scalars) {
  auto space = space_for(kernel, target);
  EXPECT_TRUE(space);
  auto workload = make_workload(kernel, scalars);
  EXPECT_TRUE(workload) << workload.error().message;
  auto configs = enumerate(kernel, target, *space, *workload);
  EXPECT_TRUE(configs) << configs.error().message;
  return configs ? *configs : std::vector<Config>();
}

TEST(Space, LeavesOutLaunchOptionsThatATargetLacks) {
  EXPECT_EQ(names(*space_for(matmul(), "cuda:sm_90a")),
            (std::vector<std::string>{"BM", "BN", "BK", "num_warps", "num_stages", "warp_specialise", "split_k",
                                      "stream_k"}));
  EXPECT_EQ(names(*space_for(matmul(), "cuda:sm_80")),
            (std::vector<std::string>{"BM", "BN", "BK", "num_warps", "num_stages", "split_k", "stream_k"}));
  EXPECT_EQ(names(*space_for(matmul(), "cpu:znver5")), (std::vector<std::string>{"BM", "BN", "BK", "GROUP"}));
}

TEST(Space, OfATargetIsWhatIsSaidForTheFewest) {
  dsl::Kernel kernel = matmul();
  kernel.space = {{"BM", {1, 2}}, {"BM", {5}, "cpu:x"}, {"BM", {3}, "cpu"}, {"BK", {4}, "cuda"}};
  const auto values = [&](const std::string& target) {
    std::vector<std::vector<int64_t>> out;
    const auto space = space_for(kernel, target);
    for (const dsl::SpaceAxis& axis : space->axes) out.push_back(axis.values);
    return out;
  };
  using Values = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(values("cpu:x"), (Values{{5}}));
  EXPECT_EQ(values("cpu:y"), (Values{{3}}));
  EXPECT_EQ(values("amd:gfx90a"), (Values{{1, 2}}));
  EXPECT_EQ(values("cuda:sm_80"), (Values{{1, 2}, {4}}));
  kernel.space = {{"BM", {1, 2}, "amd"}};  // none here
  dsl::Kernel bare = kernel;
  bare.space.clear();
  EXPECT_EQ(names(*space_for(kernel, "cpu:x")), names(*space_for(bare, "cpu:x")));
}

TEST(Space, AStatedAxisMustNameSomething) {
  EXPECT_EQ(space_for(matmul(), "cpu:x", {{"BX", {1}}}).error().message,
            "kernel `matmul`: space `BX`: it is neither a constexpr nor one of num_warps, num_stages, "
            "waves_per_eu, chiplets, warp_specialise, split_k, cluster or stream_k");
  EXPECT_EQ(space_for(matmul(), "cuda:sm_90a", {{"num_warps", {3}}}).error().message,
            "kernel `matmul`: space `num_warps`: schedule option `num_warps` is 3; it must be 1, 2, 4, 8, 16 or 32");
  auto space = space_for(matmul(), "cpu:x", {{"BM", {64, 32, 64}}});
  ASSERT_TRUE(space);
  EXPECT_EQ(space->axes[0].values, (std::vector<int64_t>{32, 64}));
}

TEST(Space, TheDefaultComesFirstAndEveryConfigOnce) {
  const std::vector<Config> configs = configs_of(matmul(), "cuda:sm_90a", {{"M", 512}, {"N", 512}, {"K", 512}});
  // Of 16 block shapes, 256 programs are split by two at most, 128 by four: 60 with split_k. Of 192 columns, 48 to 6
  // programs are split by all, and 48 by four and 24 by eight dealt out. Eight warps are not two consumer groups.
  ASSERT_EQ(configs.size(), (60u + 16 + 2) * 5 * (3 + 2) * 3);
  EXPECT_TRUE(std::ranges::none_of(configs, [](const Config& config) {
    return config.at("num_warps") == 8 && config.contains("warp_specialise") && config.at("warp_specialise") == 4;
  }));
  EXPECT_EQ(to_string(configs[0]), "BK=64,BM=128,BN=256,GROUP=8,num_stages=4,num_warps=8");
  std::vector<Config> sorted = configs;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
}

TEST(Space, ProductsAreSplitWhereProgramsAreFew) {
  const auto most = [](const std::vector<Config>& configs) {
    int64_t out = 1;
    for (const Config& config : configs) out = std::max(out, config.contains("split_k") ? config.at("split_k") : 1);
    return out;
  };
  EXPECT_EQ(most(configs_of(matmul(), "cuda:sm_80", {{"M", 512}, {"N", 512}, {"K", 16384}})), 8);
  EXPECT_EQ(most(configs_of(matmul(), "amd:gfx942", {{"M", 512}, {"N", 512}, {"K", 16384}})), 8);
  EXPECT_EQ(most(configs_of(matmul(), "cuda:sm_80", {{"M", 8192}, {"N", 8192}, {"K", 16384}})), 1);
  // On a CPU only where somebody says so.
  EXPECT_EQ(most(configs_of(matmul(), "cpu:znver5", {{"M", 512}, {"N", 512}, {"K", 16384}})), 1);
  EXPECT_EQ(names(*space_for(matmul(), "cpu:znver5", {{"split_k", {1, 4}}})), (std::vector<std::string>{"split_k"}));
}

// By workers where programs, with their parts, are more than one and less than two for each: 100 of 128 by 128 are, in
// two parts each, and 200 of 64 by 128 as they are.
TEST(Space, ProductsAreDealtOutWhereProgramsComeOutUneven) {
  const nlohmann::json shape = {{"M", 1280}, {"N", 1280}, {"K", 8192}};
  std::set<std::vector<int64_t>> found;
  for (const Config& config : configs_of(matmul(), "cuda:sm_90a", shape)) {
    if (!config.contains("stream_k")) continue;
    EXPECT_EQ(config.at("stream_k"), 132);
    found.insert({config.at("BM"), config.at("BN"), config.contains("split_k") ? config.at("split_k") : 1});
  }
  EXPECT_TRUE(found.contains({128, 128, 2}));
  EXPECT_TRUE(found.contains({64, 128, 1}));
  EXPECT_FALSE(found.contains({128, 128, 1}));
  EXPECT_FALSE(found.contains({128, 128, 4}));
  EXPECT_EQ(names(*space_for(matmul(), "amd:gfx942")).back(), "split_k");
  EXPECT_EQ(names(*space_for(matmul(), "cpu:znver5", {{"stream_k", {0, 8}}})), (std::vector<std::string>{"stream_k"}));
}

TEST(Space, ConstraintsAndGridsRefuseConfigs) {
  const nlohmann::json rows = {{"rows", 4}, {"cols", 3000}, {"stride", 3000}};
  const std::vector<Config> configs = configs_of(softmax(), "cpu:x", rows);
  ASSERT_EQ(configs.size(), 5u);  // 4096, as the nearest to the default of 1024, and above
  EXPECT_EQ(to_string(configs[0]), "BLOCK=4096");
  auto space = space_for(softmax(), "cpu:x", {{"BLOCK", {256, 512}}});
  auto workload = make_workload(softmax(), rows);
  EXPECT_EQ(enumerate(softmax(), "cpu:x", *space, *workload).error().message,
            "kernel `softmax`: where le(cols, BLOCK) is false (config BLOCK=1024)");
}

TEST(Space, FixedConstexprsAreNotTheTuners) {
  auto space = space_for(matmul(), "cpu:x");
  auto workload = make_workload(matmul(), {{"M", 64}, {"N", 64}, {"K", 64}}, {}, {{"BM", 64}});
  auto configs = enumerate(matmul(), "cpu:x", *space, *workload);
  ASSERT_TRUE(configs);
  EXPECT_EQ(configs->size(), 7u * 5 * 3);  // BN, BK, GROUP
  for (const Config& config : *configs) EXPECT_EQ(config.at("BM"), 64);
}

// BM, BN and BK cut the work; the width of a head is the problem's.
TEST(Space, IsDerivedFromTheOpsWhereNoneIsDeclared) {
  dsl::Kernel product = matmul(), attention = *kernels::attention<lang::f32>().ir();
  product.space.clear();
  attention.space.clear();
  EXPECT_EQ(names(*space_for(product, "cpu:x")), (std::vector<std::string>{"BM", "BN", "BK"}));
  auto space = space_for(product, "cuda:sm_90a");
  EXPECT_EQ(names(*space), (std::vector<std::string>{"BM", "BN", "BK", "num_warps", "num_stages"}));
  EXPECT_EQ(space->axes[1].values, (std::vector<int64_t>{64, 128, 256, 512, 1024}));
  EXPECT_EQ(names(*space_for(attention, "cpu:x")), (std::vector<std::string>{"BM", "BN"}));
  EXPECT_TRUE(names(*space_for(*kernels::dlrm_interaction<lang::f32>().ir(), "cpu:x")).empty());
}

TEST(Space, DistanceCountsSteps) {
  const Space space{{{"A", {1, 2, 4}}, {"B", {8, 16}}}, {}};
  EXPECT_EQ(distance(space, {{"A", 1}, {"B", 8}}, {{"A", 4}, {"B", 16}}), 3);
  EXPECT_EQ(distance(space, {{"A", 3}, {"B", 8}}, {{"A", 2}, {"B", 8}}), 0);
  EXPECT_EQ(distance(space, {{"A", 1}}, {{"A", 1}, {"B", 8}}), 1);
}

}  // namespace
}  // namespace kiln::autotune
