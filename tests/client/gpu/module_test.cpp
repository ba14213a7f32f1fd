// Loading code: once a device, shared by threads and handles; what cannot run is refused in words.
#include <gmock/gmock.h>

#include <thread>

#include "fake_case.h"

namespace kiln::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

using Modules = FakeCase;

TEST_F(Modules, AreLoadedOnceByEightThreads) {
  const dsl::Kernel kernel = kernel_of("%n: i32");
  const Artifact artifact = artifact_of(kernel);
  std::vector<std::shared_ptr<const client::Variant>> variants(8);
  std::vector<std::thread> threads;
  for (auto& variant : variants) {
    threads.emplace_back([&] {
      variant = loaded(kernel, artifact);
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(launch(*variant, kernel, {scalar(1)}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_calls("cuModuleLoadDataEx"), 1u);
  EXPECT_EQ(fake_launches(), 80u);
  variants.erase(variants.begin(), variants.end() - 1);
  EXPECT_EQ(fake_live("module"), 1);
  variants.clear();
  EXPECT_EQ(fake_live("module"), 0);
  EXPECT_NE(loaded(kernel, artifact), nullptr);
  EXPECT_EQ(fake_calls("cuModuleLoadDataEx"), 2u);
}

TEST_F(Modules, AreLoadedOnEachDeviceThatLaunches) {
  const dsl::Kernel kernel = kernel_of("%n: i32");
  auto variant = loaded(kernel, artifact_of(kernel));
  const Stream streams[] = {new_stream(open_device(0)), new_stream(open_device(1))};
  EXPECT_EQ(fake_calls("cuModuleLoadDataEx"), 1u);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) {
        EXPECT_EQ(message(launch(*variant, kernel, {scalar(1)}, {.stream = &streams[(i + j) % 2]})), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_calls("cuModuleLoadDataEx"), 2u);
  int on_second = 0;
  for (size_t i = 0; i < fake_launches(); ++i) on_second += fake_launch(i)->device;
  EXPECT_EQ(on_second, 80);
}

TEST_F(Modules, CodeForAnotherDeviceIsRefused) {
  fake_set_capability(0, 8, 0);
  fake_set_capability(1, 8, 0);
  const dsl::Kernel kernel = kernel_of("");
  EXPECT_EQ(message(load(kernel, artifact_of(kernel))),
            "kernel `k` (k.kiln:3:3): its code for `cuda:sm_90a` cannot run on cuda:0 (Fake 0): it needs a device of "
            "compute capability 9.0, not 8.0");
  EXPECT_THAT(message(load(kernel, artifact_of(kernel, {{"target", "cuda:sm_86"}, {"emit", "cubin"}}))),
              HasSubstr("it needs a device of compute capability 8.6 to 8.9, not 8.0"));
  EXPECT_THAT(message(load(kernel, artifact_of(kernel, {{"target", "cuda:sm_90"}}))),
              HasSubstr("it needs a device of compute capability 9.0 or more, not 8.0"));
  EXPECT_THAT(message(load(kernel, artifact_of(kernel, {{"target", "cuda:sm_x"}}))),
              HasSubstr("it is of no CUDA architecture that this client knows"));
  EXPECT_NE(loaded(kernel, artifact_of(kernel, {{"target", "cuda:sm_75;opt=1"}})), nullptr);
  EXPECT_EQ(fake_calls("cuModuleLoadDataEx"), 1u);
}

TEST_F(Modules, GoToTheFirstDeviceThatRunsThem) {
  fake_set_capability(0, 8, 9);
  const dsl::Kernel kernel = kernel_of("");
  auto variant = loaded(kernel, artifact_of(kernel));
  ASSERT_TRUE(launch(*variant, kernel, {}).ok());
  EXPECT_EQ(fake_launch(0)->device, 1);
  const Stream other = new_stream(open_device(0));
  EXPECT_THAT(message(launch(*variant, kernel, {}, {.stream = &other})),
              HasSubstr("cannot run on cuda:0 (Fake 0): it needs a device of compute capability 9.0, not 8.9"));
}

TEST_F(Modules, OfPtxKeepItsLines) {
  const dsl::Kernel kernel = kernel_of("%n: i32");
  ASSERT_NE(loaded(kernel, artifact_of(kernel)), nullptr);
  EXPECT_EQ(fake_jit_option(13), 1u);  // CU_JIT_GENERATE_LINE_INFO
}

TEST_F(Modules, ThatDoNotLoadTellWhatTheJitSaid) {
  const dsl::Kernel kernel = kernel_of("");
  fake_fail("cuModuleLoadDataEx", 218, 0);
  fake_jit_log("ptxas fatal: line 7: no such instruction");
  EXPECT_EQ(message(load(kernel, artifact_of(kernel))),
            "loading kernel `k` (k.kiln:3:3) on cuda:0 (Fake 0): cuModuleLoadDataEx: a fake error "
            "(CUDA_ERROR_INVALID_PTX)\nptxas fatal: line 7: no such instruction");
  // The failure is not remembered.
  EXPECT_NE(loaded(kernel, artifact_of(kernel)), nullptr);
}

TEST_F(Modules, WithoutTheEntryAreRefusedAndUnloaded) {
  const dsl::Kernel kernel = kernel_of("");
  EXPECT_EQ(message(load(kernel, artifact_of(kernel, {{"entry", "another"}}))),
            "loading kernel `k` (k.kiln:3:3) on cuda:0 (Fake 0): cuModuleGetFunction of `another`: a fake error "
            "(CUDA_ERROR_NOT_FOUND)");
  EXPECT_EQ(fake_live("module"), 0);
}

// Metadata that are not as docs/reference/artifact.md says are an error that names what is wrong.
TEST_F(Modules, DamagedMetadataAreRefused) {
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>, %n: i32");
  const json map = {{"param", 0},
                    {"type", "f32"},
                    {"rank", 2},
                    {"dims", {json::array(), json::array()}},
                    {"strides_bytes", {json::array()}},
                    {"box", {16, 16}},
                    {"swizzle", "none"}};
  auto with_map = [&](const json& change) {
    json changed = map;
    changed.merge_patch(change);
    return json{{"device", {{"tensor_maps", {changed}}}}};
  };
  const std::pair<json, const char*> cases[] = {
      {{{"emit", "so"}}, "no code for a device but `so`"},
      {{{"target", nullptr}}, "no `target`"},
      {{{"device", 7}}, "a bad `device`"},
      {{{"device", {{"threads", 0}}}}, "a bad number of threads"},
      {{{"device", {{"threads", 1025}}}}, "a bad number of threads"},
      {{{"device", {{"threads", "many"}}}}, "a bad `threads`"},
      {{{"device", {{"shared_bytes", -1}}}}, "bad shared_bytes"},
      {{{"device", {{"cluster", {1, 0, 1}}}}}, "a bad cluster"},
      {{{"device", {{"cluster", {1}}}}}, "a bad cluster"},
      {{{"plan", json::array()}}, "a bad `plan`"},
      {{{"plan", {{{"entry", "kiln_entry"}, {"chunks", 0}}}}}, "bad chunks"},
      {{{"plan", 3}}, "a bad `plan`"},
      {{{"plan", {{{"chunks", 1}}}}}, "a stage without an entry"},
      {{{"grid_expr", {1, 2, 3}}}, "a bad expression"},
      {{{"checks", {1}}}, "a bad `checks`"},
      {{{"workspace_bytes", 0}}, "bad workspace_bytes"},
      {{{"device", {{"programs", 0}}}}, "bad programs"},
      {{{"device", {{"programs", 4}}}}, "blocks of several programs without their number"},
      {{{"device", {{"persistent", 0}}}}, "a bad persistent"},
      {{{"device", {{"persistent", 1}}}}, "persistent blocks without the extents of their grid"},
      {{{"device", {{"persistent", 1}, {"programs", 2}}}}, "persistent blocks of several programs or stages"},
      {{{"queue_param", 16}}, "a queue_param of blocks that are not persistent"},
      {{{"failure_param", 13}}, "a failure_param that is not behind the others"},
      {{{"failure_param", 1 << 20}}, "a bad failure_param"},
      {with_map({{"param", 1}}), "a tensor map of no pointer"},
      {with_map({{"param", 2}}), "a tensor map of no pointer"},
      {with_map({{"type", "f31"}}), "a tensor map of an unknown type"},
      {with_map({{"rank", 6}}), "a tensor map of a bad rank"},
      {with_map({{"rank", 1}}), "a tensor map of bad dims"},
      {with_map({{"strides_bytes", json::array()}}), "a tensor map of bad strides_bytes"},
      {with_map({{"box", {16, 257}}}), "a tensor map of a bad box"},
      {with_map({{"swizzle", "96"}}), "a tensor map of an unknown swizzle"},
      {with_map({{"interleave", "16B"}}), "a tensor map with interleave"},
      {with_map({{"fill", "one"}}), "a tensor map of an unknown fill"},
      {with_map({{"fill", "nan"}, {"type", "i32"}}), "a tensor map of an unknown fill"},
      {with_map({{"offset", "x"}}), "a bad expression"},
  };
  for (const auto& [change, what] : cases) {
    const auto artifact = read_artifact_of(kernel, change);
    if (artifact) {
      EXPECT_THAT(message(load(kernel, *artifact)), StartsWith("the artifact of kernel `k` has ")) << change;
    }
    EXPECT_THAT(artifact ? message(load(kernel, *artifact)) : message(artifact), HasSubstr(what)) << change;
  }
  json many = json::array();
  for (int i = 0; i < 32; ++i) many.push_back(map);
  EXPECT_THAT(message(load(kernel, artifact_of(kernel, {{"device", {{"tensor_maps", many}}}}))),
              HasSubstr("more than 4096 bytes of parameters"));
  EXPECT_EQ(fake_calls("cuModuleLoadDataEx"), 0u);
}

}  // namespace
}  // namespace kiln::test
