// What a request may choose, and what it gets where it says nothing.
#include "kiln/dsl/config.h"

#include "kiln/dsl/binary.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

constexpr const char* kLoops =
    "kernel k(%p: ptr<f32>, %x: f32, %n: i32) { constexpr B = 16\n"
    "defaults \"cuda\" {B = 128, num_warps = 8}\n"
    "defaults \"cuda:sm_90a\" {B = 256}\n"
    "%z = constant {value = 0, type = i32} %s = constant {value = B, type = i32}\n"
    "%a = for %i = %z to %n step %s carry (%c = %x) {num_stages = 3} { %d = add %c, %c yield %d }\n"
    "%b = for %i2 = %z to %n step %s carry (%c2 = %a) { %d2 = mul %c2, %c2 yield %d2 }\n"
    "store %p, %b }";

RequestBytes bytes_of(const std::string& target, const ConstexprValues& values) {
  auto bytes = encode_request({parsed(kLoops), target, values, {}});
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes ? *bytes : RequestBytes{};
}

TEST(Config, MayChooseLaunchOptions) {
  const Kernel kernel = parsed("kernel k(%p: ptr<f32>, %x: f32) { constexpr N = 2\nstore %p, %x }");
  const ConstexprValues chosen = {{"N", 4}, {"num_warps", 2}, {"num_stages", 5}};
  EXPECT_EQ(*complete_constexprs(kernel, chosen, "cuda:sm_80"), chosen);
  EXPECT_EQ(*complete_constexprs(kernel, {{"num_warps", 2}}, "cuda:sm_80"),
            (ConstexprValues{{"N", 2}, {"num_warps", 2}}));
}

TEST(Config, SaysWhatAScheduleOptionMayBe) {
  const Kernel kernel = parsed("kernel k(%p: ptr<f32>, %x: f32) { store %p, %x }");
  for (int64_t warps : {0, 3, 64, -1}) {
    EXPECT_EQ(
        first_line(complete_constexprs(kernel, {{"num_warps", warps}}, "cpu")),
        "kernel `k`: schedule option `num_warps` is " + std::to_string(warps) + "; it must be 1, 2, 4, 8, 16 or 32");
  }
  EXPECT_EQ(first_line(complete_constexprs(kernel, {{"num_stages", 9}}, "cuda")),
            "kernel `k`: schedule option `num_stages` is 9; it must be 1 to 8");
  EXPECT_TRUE(complete_constexprs(kernel, {{"num_warps", 32}, {"num_stages", 8}}, "cuda").ok());
  EXPECT_EQ(first_line(complete_constexprs(kernel, {{"split_k", 0}}, "cuda")),
            "kernel `k`: schedule option `split_k` is 0; it must be 1 to 64");
  EXPECT_EQ(first_line(complete_constexprs(kernel, {{"warp_specialise", 5}}, "cuda:sm_90a")),
            "kernel `k`: schedule option `warp_specialise` is 5; it must be 0 (plain), 1 (producers), 2 (persistent), "
            "3 (queue) "
            "or 4 (ping_pong)");
  EXPECT_EQ(first_line(complete_constexprs(kernel, {{"cluster", 3}}, "cuda:sm_90a")),
            "kernel `k`: schedule option `cluster` is 3; it must be 1 to 2");
  for (int64_t workers : {-1, 1025}) {
    EXPECT_EQ(first_line(complete_constexprs(kernel, {{"stream_k", workers}}, "cuda")),
              "kernel `k`: schedule option `stream_k` is " + std::to_string(workers) + "; it must be 0 to 1024");
  }
  EXPECT_TRUE(complete_constexprs(kernel, {{"stream_k", 1024}}, "cuda").ok());
}

TEST(Config, TargetsWithoutScheduleOptionsHaveOneKeyForAll) {
  const RequestBytes plain = bytes_of("cpu:x86-64-v3", {});
  EXPECT_EQ(bytes_of("cpu:x86-64-v3", {{"num_warps", 8}, {"num_stages", 2}}).canonical, plain.canonical);
  EXPECT_EQ(*complete_constexprs(parsed(kLoops), {{"num_warps", 8}, {"split_k", 2}, {"stream_k", 2}}, "interp"),
            (ConstexprValues{{"B", 16}}));
  EXPECT_NE(bytes_of("cuda:sm_80", {{"num_warps", 4}}).canonical, bytes_of("cuda:sm_80", {}).canonical);
  EXPECT_NE(bytes_of("cuda:sm_80", {{"num_stages", 4}}).canonical, bytes_of("cuda:sm_80", {}).canonical);
  EXPECT_EQ(bytes_of("cuda:sm_80", {{"warp_specialise", 1}}).canonical, bytes_of("cuda:sm_80", {}).canonical);
  EXPECT_EQ(bytes_of("cuda:sm_90a", {{"warp_specialise", 0}}).canonical, bytes_of("cuda:sm_90a", {}).canonical);
  EXPECT_NE(bytes_of("cuda:sm_90a", {{"warp_specialise", 1}}).canonical, bytes_of("cuda:sm_90a", {}).canonical);
  EXPECT_EQ(bytes_of("cuda:sm_90", {{"cluster", 2}}).canonical, bytes_of("cuda:sm_90", {}).canonical);
  EXPECT_EQ(bytes_of("cuda:sm_90a", {{"cluster", 1}}).canonical, bytes_of("cuda:sm_90a", {}).canonical);
  EXPECT_NE(bytes_of("cuda:sm_90a", {{"cluster", 2}}).canonical, bytes_of("cuda:sm_90a", {}).canonical);
  for (const char* target : {"cuda:sm_80", "amd:gfx942", "cpu:x86-64-v3"}) {
    EXPECT_EQ(bytes_of(target, {{"split_k", 1}}).canonical, bytes_of(target, {}).canonical);
    EXPECT_NE(bytes_of(target, {{"split_k", 2}}).canonical, bytes_of(target, {}).canonical);
    EXPECT_EQ(bytes_of(target, {{"stream_k", 0}}).canonical, bytes_of(target, {}).canonical);
    EXPECT_NE(bytes_of(target, {{"stream_k", 1}}).canonical, bytes_of(target, {}).canonical);
  }
}

TEST(Config, LaunchOptionsSurviveTheBinaryForm) {
  for (const ConstexprValues& values :
       {ConstexprValues{{"B", 64}, {"num_stages", 2}}, ConstexprValues{{"B", 64}, {"num_warps", 16}},
        ConstexprValues{{"B", 64}, {"warp_specialise", 1}}, ConstexprValues{{"B", 64}, {"split_k", 8}},
        ConstexprValues{{"B", 64}, {"warp_specialise", 2}, {"cluster", 2}},
        ConstexprValues{{"B", 64}, {"split_k", 2}, {"stream_k", 132}}}) {
    const RequestBytes bytes = bytes_of("cuda:sm_90a", values);
    const auto back = decode_request(bytes.canonical, bytes.debug);
    ASSERT_TRUE(back.ok()) << back.error().message;
    ConstexprValues wanted = values;
    wanted.emplace("num_warps", 8);  // the kernel's own for such targets
    EXPECT_EQ(back->constexprs, wanted);
    EXPECT_EQ(back->kernel.target_defaults, parsed(kLoops).target_defaults);
  }
}

TEST(Config, NumStagesReplacesTheHintsOfLoopsThatHaveOne) {
  const auto concrete = instantiate(parsed(kLoops), {{"num_stages", 5}}, {});
  ASSERT_TRUE(concrete.ok()) << concrete.error().message;
  const std::string text = print(*concrete);
  EXPECT_NE(text.find("carry (%c = %x) {num_stages = 5}"), std::string::npos) << text;
  EXPECT_NE(text.find("carry (%c2 = %a) : f32"), std::string::npos) << text;
}

TEST(Config, TheMostParticularDefaultsComeFirst) {
  const Kernel kernel = parsed(kLoops);
  EXPECT_EQ(*complete_constexprs(kernel, {}, "cpu:x86-64-v3"), (ConstexprValues{{"B", 16}}));
  EXPECT_EQ(*complete_constexprs(kernel, {}, "cuda"), (ConstexprValues{{"B", 128}, {"num_warps", 8}}));
  EXPECT_EQ(*complete_constexprs(kernel, {}, "cuda:sm_80"), (ConstexprValues{{"B", 128}, {"num_warps", 8}}));
  EXPECT_EQ(*complete_constexprs(kernel, {}, "cuda:sm_90a"), (ConstexprValues{{"B", 256}, {"num_warps", 8}}));
  EXPECT_EQ(*complete_constexprs(kernel, {{"B", 1}, {"num_warps", 1}}, "cuda:sm_90a"),
            (ConstexprValues{{"B", 1}, {"num_warps", 1}}));
}

TEST(Config, TargetDefaultsAreNotInTheKey) {
  Kernel kernel = parsed(kLoops);
  const auto with = encode_request({kernel, "cuda:sm_80", {{"B", 8}, {"num_warps", 2}}, {}});
  kernel.target_defaults.clear();
  const auto without = encode_request({kernel, "cuda:sm_80", {{"B", 8}, {"num_warps", 2}}, {}});
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->canonical, without->canonical);
}

TEST(Config, TargetDefaultsAreWrittenAsTheyAreRead) {
  const std::string text = print(parsed(kLoops));
  EXPECT_NE(text.find("  constexpr B = 16\n  defaults \"cuda\" {B = 128, num_warps = 8}\n"
                      "  defaults \"cuda:sm_90a\" {B = 256}\n  grid"),
            std::string::npos)
      << text;
  EXPECT_EQ(print(parsed(text)), text);
}

TEST(Config, TheTextOfTargetDefaultsIsChecked) {
  const auto error_of = [](const std::string& header) {
    return first_line(parse("kernel k(%p: ptr<f32>, %x: f32) { constexpr B = 1\n" + header + "\nstore %p, %x }", "k"));
  };
  EXPECT_EQ(error_of("defaults cuda {B = 1}"),
            "k:2:10: error: expected a target in quotes, like \"cuda\", found `cuda`");
  EXPECT_EQ(error_of("defaults \"cuda\" {B = 1, B = 2}"), "k:2:25: error: `B` has a value already");
  EXPECT_EQ(error_of("defaults \"cuda\" {} defaults \"cuda\" {}"),
            "k:2:29: error: the target `\"cuda\"` has defaults already");
}

TEST(Config, TheVerifierKnowsTargetsAndNames) {
  const auto error_of = [](const std::string& header) {
    const auto kernel = parse("kernel k(%p: ptr<f32>, %x: f32) { constexpr B = 1\n" + header + "\nstore %p, %x }", "k");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return first_line(verify(*kernel));
  };
  EXPECT_EQ(error_of("defaults \"cuad\" {B = 1}"),
            "kernel `k`: error: the defaults for `cuad`: there are no targets `cuad`; there are cpu, cuda, amd");
  EXPECT_EQ(error_of("defaults \"cuda\" {C = 1}"),
            "kernel `k`: error: the defaults for `cuda`: `C` is neither a constexpr nor num_warps, num_stages, "
            "waves_per_eu, chiplets, warp_specialise, split_k, cluster or stream_k");
  EXPECT_EQ(
      error_of("defaults \"cuda\" {num_warps = 5}"),
      "kernel `k`: error: the defaults for `cuda`: schedule option `num_warps` is 5; it must be 1, 2, 4, 8, 16 or 32");
  EXPECT_EQ(error_of("space num_warps = [4, 5]"),
            "kernel `k`: error: schedule option `num_warps` is 5; it must be 1, 2, 4, 8, 16 or 32");
  EXPECT_EQ(error_of("constexpr num_warps = 4"),
            "kernel `k`: error: a constexpr has the name of a schedule option, `num_warps`");
}

TEST(Config, ABuilderGivesTargetDefaults) {
  using namespace lang;
  const auto make = [](const std::string& target, ConstexprValues values) {
    return kernel("k", {"p", "B=16"}, [](Ptr<f32> p, Const B) { store(p + arange(0, B), zeros(f32_t, {B})); })
        .defaults(target, std::move(values));
  };
  const auto def = make("cuda", {{"B", 64}, {"num_warps", 2}});
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  EXPECT_EQ(*complete_constexprs(*def.ir(), {}, "cuda:sm_86"), (ConstexprValues{{"B", 64}, {"num_warps", 2}}));
  EXPECT_EQ(first_line(make("cuda", {{"C", 1}}).ir()),
            "kernel `k`: defaults for `cuda`: `C` is neither a constexpr nor num_warps, num_stages, waves_per_eu, "
            "chiplets, warp_specialise, split_k, cluster or stream_k");
  EXPECT_EQ(first_line(make("gpu", {}).ir()),
            "kernel `k`: defaults for `gpu`: there are no targets `gpu`; there are cpu, cuda, amd");
}

}  // namespace
}  // namespace kiln::dsl::testing
