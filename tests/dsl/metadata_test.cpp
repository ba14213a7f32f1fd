// An artifact's metadata: the JSON that caches and the wire carry, byte for byte, and what the reader refuses.
#include "kiln/abi/metadata.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kiln/abi/metadata_json.h"

namespace kiln::abi {
namespace {

Metadata base() {
  Metadata out;
  out.kernel = "scale";
  out.target = "cpu:x86-64-v3";
  out.emit = "so";
  out.entry = "kiln_entry";
  out.params = {{"x", "ptr<f32>", 0, true}, {"n", "i32", 8, false}};
  out.params_bytes = 12;
  out.grid = {"n + 63", "1", "1"};
  out.grid_expr = {dsl::Expr::param_ref(1), dsl::Expr(1), dsl::Expr(1)};
  out.constexprs = {{"B", 64}};
  out.config = {64};
  out.facts = {dsl::ParamFact::kAlign16, dsl::ParamFact::kNone};
  out.phases_us = {{"lower", 7}, {"total", 9}};
  out.passes_us = {{"licm", 3}};
  out.code_bytes = 5;
  return out;
}

constexpr const char* kBase =
    R"("code_bytes":5,"config":[64],"constexprs":{"B":64},"emit":"so","entry":"kiln_entry",)"
    R"("facts":["align16","none"],"grid":["n + 63","1","1"],"grid_expr":[[[1,[["p",1]]]],[[1,[]]],[[1,[]]]],)"
    R"("kernel":"scale",)";
constexpr const char* kParams =
    R"("params":[{"name":"x","offset":0,"readonly":true,"type":"ptr<f32>"},{"name":"n","offset":8,"type":"i32"}],)"
    R"("params_bytes":12,"passes_us":{"licm":3},"phases_us":{"lower":7,"total":9},)";

Metadata of_cpu() {
  Metadata out = base();
  out.needs = {"x86_64", {"avx2", "fma"}};
  out.scratch_bytes = 64;
  out.checks = {{"assert", {"k.kiln", 4, 3}, "n is small", {}}, {"gather", {}, {}, 8}};
  out.prints = {{"v", {"k.kiln", 5, 1}, {{dsl::ElementType::kF32, {2, 4}}, {dsl::ElementType::kI1, {}}}}};
  out.plan = {{"kiln_stage_0", 4, {}, {}}, {"kiln_entry", 1, {}, {}}};
  out.workspace_bytes = 128;
  return out;
}

Metadata of_gpu() {
  Metadata out = base();
  out.target = "cuda:sm_90a";
  Device& device = out.device.emplace();
  device.threads = 128;
  device.shared_bytes = 1024;
  device.persistent = 2;
  device.waits = true;
  device.cluster = {2, 1, 1};
  device.registers = 168;
  device.spill_bytes = 0;
  device.assembler_us = 3;
  device.warnings.emplace();
  device.tensor_maps = {
      {0, dsl::Expr(), dsl::ElementType::kBF16, {dsl::Expr(8), dsl::Expr(4)}, {dsl::Expr(16)}, {8, 4}, 64, true}};
  out.offsets = {{LaunchField::kGrid, 256}, {LaunchField::kQueue, 272}};
  return out;
}

TEST(Metadata, OfACpuIsThisText) {
  EXPECT_EQ(write_metadata(of_cpu()),
            std::string(R"({"checks":[{"column":3,"file":"k.kiln","line":4,"message":"n is small","op":"assert"},)"
                        R"({"extent":8,"op":"gather"}],)") +
                kBase + R"("needs":{"architecture":"x86_64","features":["avx2","fma"]},)" + kParams +
                R"("plan":[{"chunks":4,"entry":"kiln_stage_0"},{"chunks":1,"entry":"kiln_entry"}],)"
                R"("prints":[{"column":1,"file":"k.kiln","line":5,"message":"v","op":"print",)"
                R"("values":[{"shape":[2,4],"type":"f32"},{"shape":[],"type":"i1"}]}],)"
                R"("scratch_bytes":64,"target":"cpu:x86-64-v3","workspace_bytes":128})");
}

TEST(Metadata, OfAGpuIsThisText) {
  std::string expected = std::string("{") + kBase;
  expected.insert(expected.find(R"("emit")"),
                  R"("device":{"assembler_us":3,"cluster":[2,1,1],"persistent":2,"registers":168,"shared_bytes":1024,)"
                  R"("spill_bytes":0,"tensor_maps":[{"box":[8,4],"dims":[[[8,[]]],[[4,[]]]],"fill":"nan","offset":[],)"
                  R"("param":0,"rank":2,"strides_bytes":[[[16,[]]]],"swizzle":"64","type":"bf16"}],"threads":128,)"
                  R"("waits":true,"warnings":[]},)");
  expected.insert(expected.find(R"("kernel")"), R"("grid_param":256,)");
  expected += std::string(kParams) + R"("queue_param":272,"target":"cuda:sm_90a"})";
  EXPECT_EQ(write_metadata(of_gpu()), expected);
}

TEST(Metadata, ReadsBackWhatItWrites) {
  for (const Metadata& metadata : {base(), of_cpu(), of_gpu()}) {
    const std::string text = write_metadata(metadata);
    auto back = read_metadata(text);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(write_metadata(*back), text);
  }
}

TEST(Metadata, WhatIsMissingIsEmptyAndWhatIsUnknownIsPassedOver) {
  auto read = read_metadata(R"({"entry": "k", "a field to come": {"x": 1}, "device": {"threads": 32, "new": []}})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->entry, "k");
  EXPECT_EQ(read->device->threads, 32);
  EXPECT_EQ(read->device->registers, std::nullopt);
  EXPECT_TRUE(read->params.empty() && read->plan.empty() && !read->needs && !read->device->waits);
}

TEST(Metadata, WhatTheClientAddsIsNoPartOfTheText) {
  Metadata got = of_cpu();
  got.served_from = "disk";
  got.durable = false;
  EXPECT_EQ(write_metadata(got), write_metadata(of_cpu()));
}

// Each field in turn is of a kind that no field has.
TEST(Metadata, AFieldOfAnotherKindIsNamed) {
  for (const Metadata& metadata : {of_cpu(), of_gpu()}) {
    const nlohmann::json sound = to_json(metadata);
    for (const auto& [name, value] : sound.items()) {
      nlohmann::json changed = sound;
      changed[name] = true;
      const auto read = metadata_of(changed);
      ASSERT_FALSE(read) << name;
      EXPECT_EQ(read.error().message, "a bad `" + name + "`");
    }
    const nlohmann::json device = sound.value("device", nlohmann::json::object());
    for (const auto& [name, value] : device.items()) {
      nlohmann::json changed = sound;
      changed["device"][name] = 0.5;
      EXPECT_FALSE(metadata_of(changed)) << name;
    }
  }
  EXPECT_EQ(read_metadata("[]").error().message, "no fields");
  EXPECT_EQ(read_metadata("{").error().message, "no JSON");
  EXPECT_EQ(read_metadata(R"({"facts": ["sixteen"]})").error().message, "an unknown fact");
  EXPECT_EQ(read_metadata(R"({"plan": []})").error().message, "a bad `plan`");
}

}  // namespace
}  // namespace kiln::abi
