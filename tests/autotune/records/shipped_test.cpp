// Choices that ship: how their files are read and found, and that those of this tree fit its kernels.
#include "kiln/autotune/shipped.h"

#include <gmock/gmock.h>

#include "batch_helpers.h"
#include "kiln/autotune/predict.h"
#include "kiln/target/gpu.h"
#include "simulated.h"

namespace kiln::autotune {
namespace {

using simulated::machine;
using testing::HasSubstr;

constexpr const char* kSoftmax =
    R"({"kernel":"softmax","type":"bf16","shape":{"rows":16384,"cols":4096,"stride":4096},"target":"cuda:sm_90a",)";

std::string softmax_line(const std::string& rest) { return kSoftmax + rest + "}\n"; }

RecordKey softmax_key(int64_t rows, const std::string& target = "cuda:sm_90a", const char* type = "bf16") {
  const dsl::Kernel kernel = expect_ok(library_kernel("softmax", type));
  const Job job{"softmax",
                kernel,
                expect_ok(make_workload(kernel, {{"rows", rows}, {"cols", 4096}, {"stride", 4096}})),
                target,
                {}};
  return expect_ok(record_key(job, "this machine", "this compiler", {}));
}

TEST(Shipped, IsFoundByKernelAndTargetForShapesThatAreNear) {
  const ScratchDirectory directory;
  write_text(directory.file("a.jsonl"),
             softmax_line(R"("config":{"BLOCK":4096,"num_warps":4},"us":70.5,"measured_on":"NVIDIA H200")"));
  write_text(directory.file("b.jsonl"), R"({"kernel":"softmax","type":"bf16","shape":{"rows":16384,"cols":4096,)"
                                        R"("stride":4096},"target":"cuda:sm_80","config":{"BLOCK":4096},"us":140,)"
                                        R"("default_us":150,"predicted_for":"NVIDIA A100"})");
  write_text(directory.file("notes.txt"), "not read");
  const Shipped shipped = expect_ok(Shipped::read(directory.path()));
  const auto found = shipped.find(softmax_key(16384));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->config, (Config{{"BLOCK", 4096}, {"num_warps", 4}}));
  EXPECT_EQ(found->device, "NVIDIA H200");
  EXPECT_FALSE(found->predicted);
  EXPECT_EQ(found->us, 70.5);
  EXPECT_TRUE(shipped.find(softmax_key(20000)));
  EXPECT_FALSE(shipped.find(softmax_key(16)));
  EXPECT_FALSE(shipped.find(softmax_key(16384, "cuda:sm_90a", "f32")));
  EXPECT_FALSE(shipped.find(softmax_key(16384, "cuda:sm_89")));
  const auto other = shipped.find(softmax_key(16384, "cuda:sm_80"));
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->predicted);
  EXPECT_EQ(other->default_us, 150);
}

TEST(Shipped, OfTwoShapesTheNearerOneCounts) {
  const ScratchDirectory directory;
  std::string smaller = softmax_line(R"("config":{"BLOCK":4096,"num_warps":8},"us":60,"measured_on":"a")");
  smaller.replace(smaller.find("16384"), 5, "12000");
  write_text(directory.file("a.jsonl"),
             softmax_line(R"("config":{"BLOCK":4096,"num_warps":4},"us":70,"measured_on":"a")") + smaller);
  const Shipped shipped = expect_ok(Shipped::read(directory.path()));
  EXPECT_EQ(shipped.find(softmax_key(16000))->config.at("num_warps"), 4);
  EXPECT_EQ(shipped.find(softmax_key(11000))->config.at("num_warps"), 8);
}

TEST(Shipped, OfTwoDevicesOfATargetThatOfThisMachineCounts) {
  const ScratchDirectory directory;
  write_text(directory.file("a.jsonl"),
             softmax_line(R"("config":{"BLOCK":4096,"num_warps":4},"us":60,"predicted_for":"NVIDIA H100")") +
                 softmax_line(R"("config":{"BLOCK":4096,"num_warps":8},"us":70,"predicted_for":"NVIDIA H200")"));
  const Shipped shipped = expect_ok(Shipped::read(directory.path()));
  RecordKey key = softmax_key(16384);
  EXPECT_EQ(shipped.find(key)->device, "NVIDIA H100");  // nothing tells them apart: the first
  key.hardware = "NVIDIA H200, 132 multiprocessors";
  EXPECT_EQ(shipped.find(key)->device, "NVIDIA H200");
}

TEST(Shipped, ADirectoryThatIsNotThereHasNone) {
  const Shipped shipped = expect_ok(Shipped::read("/nonexistent"));
  EXPECT_FALSE(shipped.find(softmax_key(16384)));
}

TEST(Shipped, AFileInADirectorysPlaceIsAnError) {
  const ScratchDirectory directory;
  write_text(directory.file("tuned"), "");
  const auto shipped = Shipped::read(directory.file("tuned"));
  ASSERT_FALSE(shipped);
  EXPECT_THAT(shipped.error().message, HasSubstr("tuned: Not a directory"));
}

TEST(Shipped, WrongLinesAreSaidWithTheirPlace) {
  const ScratchDirectory directory;
  for (const auto& [rest, said] : {std::pair(R"("us":1,"measured_on":"a")", "a.jsonl:1: `config`"),
                                   {R"("config":{"BLOCK":"4096"},"us":1,"measured_on":"a")", "`BLOCK`"},
                                   {R"("config":{"BLOCK":4096},"us":1)", "`measured_on`"},
                                   {R"("config":{},"measured_on":"a","predicted_for":"b")", "`predicted_for`"},
                                   {R"("config":{},"measured_on":7)", "a device's name"},
                                   {R"("config":{},"us":"1","measured_on":"a")", "`us`"},
                                   {R"("config":{},"measured_on":"a","speed":1)", "`speed`"}}) {
    write_text(directory.file("a.jsonl"), softmax_line(rest));
    const auto shipped = Shipped::read(directory.path());
    ASSERT_FALSE(shipped) << rest;
    EXPECT_THAT(shipped.error().message, HasSubstr(said));
  }
  write_text(directory.file("a.jsonl"), R"({"kernel":"softmax","shapes":[{"rows":1,"cols":2,"stride":2}],)"
                                        R"("config":{},"measured_on":"a"})");
  EXPECT_THAT(Shipped::read(directory.path()).error().message, HasSubstr("one `target`"));
}

// A kernel may change; what ships of it must still be a config of it.
TEST(Shipped, TheFilesOfThisTreeFitItsKernels) {
  const std::string directory = std::string(KILN_SOURCE_DIR) + "/autotune/tuned";
  expect_ok(Shipped::read(directory));
  size_t lines = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    auto done = for_each_line(read_text(file.path()), file.path(),
                              [&](const std::string& place, nlohmann::json line) -> Result<void> {
                                ++lines;
                                const Config config = line.at("config").get<Config>();
                                for (const char* field : {"config", "us", "default_us", "measured_on", "predicted_for"})
                                  line.erase(field);
                                auto jobs = parse_job(line, directory);
                                if (!jobs) return jobs.error();
                                const JobSpec& job = jobs->front();
                                std::vector<dsl::SpaceAxis> axes;
                                for (const auto& [name, value] : config) axes.push_back({name, {value}});
                                auto space = space_for(job.kernel, job.target, axes);
                                if (!space) return space.error();
                                auto configs = enumerate(job.kernel, job.target, *space, job.workload);
                                if (!configs) return configs.error();
                                auto has = [&](Config one) {
                                  return std::all_of(config.begin(), config.end(),
                                                     [&](const auto& item) { return one[item.first] == item.second; });
                                };
                                EXPECT_TRUE(std::any_of(configs->begin(), configs->end(), has)) << place;
                                return {};
                              });
    EXPECT_TRUE(done) << done.error().message;
  }
  EXPECT_GT(lines, 100u);
}

// The blocks of simulated.h as a file of choices has them.
Shipped shipped_blocks(const ScratchDirectory& directory, const Config& config) {
  write_text(directory.file("blocks.kiln"), dsl::print(simulated::blocks_kernel()));
  const nlohmann::json line = {{"kernel", "blocks.kiln"},
                               {"shape", {{"n", 1 << 16}}},
                               {"target", "cpu:simulated"},
                               {"config", config},
                               {"us", 1000},
                               {"measured_on", "a machine"}};
  write_text(directory.file("blocks.jsonl"), line.dump());
  return expect_ok(Shipped::read(directory.path()));
}

TEST(Shipped, IsTriedFirstAndChosenWhereNothingIsMeasured) {
  const ScratchDirectory directory;
  const Job job = simulated::blocks_job();
  const Config best = {{"A", 4}, {"B", 16}, {"C", 8}};
  const Shipped shipped = shipped_blocks(directory, best);
  const TuneOptions options{.shipped = &shipped};
  auto time_of = [&](const Config& config) { return config == best ? 500.0 : 1000.0; };

  simulated::FakeCompiler compiler;
  simulated::FakeRunner runner(time_of);
  simulated::MemoryRecords records;
  TuneOptions frozen = options;
  frozen.frozen = true;
  const JobResult unmeasured = expect_ok(tune(job, compiler, runner, records, machine(), frozen));
  EXPECT_EQ(unmeasured.best, best);
  EXPECT_EQ(unmeasured.measured, 0u);
  EXPECT_FALSE(unmeasured.finished);

  const JobResult measured = expect_ok(tune(job, compiler, runner, records, machine(), options));
  EXPECT_EQ(measured.best, best);
  ASSERT_GE(measured.convergence.size(), 2u);
  EXPECT_EQ(measured.convergence[1], std::pair(size_t{2}, 500.0));  // the second measurement
  // What was measured here counts more.
  EXPECT_EQ(expect_ok(tune(job, compiler, runner, records, machine(), frozen)).best, measured.best);
}

TEST(Shipped, AChoiceThatIsSlowHereOrNotInTheSpaceIsNotTaken) {
  const ScratchDirectory directory;
  const Job job = simulated::blocks_job();
  const Config slow = {{"A", 4}, {"B", 16}, {"C", 8}};
  for (const Config& config : {slow, Config{{"A", 5}, {"B", 16}, {"C", 8}}}) {
    simulated::FakeCompiler compiler;
    simulated::FakeRunner runner([&](const Config& one) { return one == slow ? 2000.0 : 1000.0; });
    simulated::MemoryRecords records;
    const Shipped shipped = shipped_blocks(directory, config);
    const TuneOptions options{.shipped = &shipped};
    EXPECT_NE(expect_ok(tune(job, compiler, runner, records, machine(), options)).best, config);
  }
}

// Configs leave schedule options out that say nothing; such a one is no config with the option.
TEST(Shipped, AConfigWithoutAChosenScheduleOptionIsAnotherOne) {
  const ScratchDirectory directory;
  const Config chosen = {{"BLOCK", 4096}, {"num_warps", 4}};
  const nlohmann::json shape = {{"rows", 16384}, {"cols", 4096}, {"stride", 4096}, {"eps", 1e-5}};
  const nlohmann::json line = {{"kernel", "layer_norm"},  {"type", "bf16"},   {"shape", shape},
                               {"target", "cuda:sm_90a"}, {"config", chosen}, {"measured_on", "a"}};
  write_text(directory.file("a.jsonl"), line.dump());
  const Shipped shipped = expect_ok(Shipped::read(directory.path()));
  const dsl::Kernel kernel = expect_ok(library_kernel("layer_norm", "bf16"));
  const Job job{"layer_norm",
                kernel,
                expect_ok(make_workload(kernel, shape)),
                "cuda:sm_90a",
                {{"BLOCK", {4096}}, {"num_warps", {4, 8}}}};
  simulated::FakeCompiler compiler;
  simulated::FakeRunner runner([](const Config&) { return 1000.0; });
  simulated::MemoryRecords records;
  const JobResult result =
      expect_ok(tune(job, compiler, runner, records, machine(), {.frozen = true, .shipped = &shipped}));
  EXPECT_FALSE(result.fallback.contains("num_warps"));  // else this tests nothing
  EXPECT_EQ(result.best, chosen);
}

TEST(Shipped, OfAParameterThatIsNewerTheDefaultIsTaken) {
  const ScratchDirectory directory;
  const Job job = simulated::blocks_job();
  const Shipped shipped = shipped_blocks(directory, {{"A", 4}, {"B", 16}});
  simulated::FakeCompiler compiler;
  simulated::FakeRunner runner([](const Config&) { return 1000.0; });
  simulated::MemoryRecords records;
  const JobResult result =
      expect_ok(tune(job, compiler, runner, records, machine(), {.frozen = true, .shipped = &shipped}));
  EXPECT_EQ(result.best, (Config{{"A", 4}, {"B", 16}, {"C", result.fallback.at("C")}}));
}

TEST(Shipped, WhatABatchChoseIsWrittenAsItIsRead) {
  const ScratchDirectory directory;
  const auto specs = expect_ok(parse_jobs(std::string(kSoftmax) +
                                              R"("space":{"BLOCK":[4096]}})"
                                              "\n" +
                                              kSoftmax + R"("name":"unfinished"})",
                                          "jobs.jsonl"));
  BatchResult result;
  for (size_t i = 0; i < specs.size(); ++i) {
    JobOutcome& outcome = result.jobs.emplace_back();
    outcome.target = "cuda:sm_90a";
    outcome.device = "NVIDIA H200";
    outcome.spec = i;
    outcome.result.emplace();
    outcome.result->finished = i == 0;
    outcome.result->best = {{"BLOCK", 4096}, {"num_warps", 8}};
    outcome.result->best_us = 70.123;
    outcome.result->default_us = 80;
  }
  const std::string lines = shipped_lines(specs, result, false);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
  write_text(directory.file("written.jsonl"), lines);
  const auto found = expect_ok(Shipped::read(directory.path())).find(softmax_key(16384));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->config, result.jobs[0].result->best);
  EXPECT_EQ(found->us, 70.12);
  EXPECT_EQ(found->default_us, 80);
}

TEST(Predict, KnowsDevicesByName) {
  const KnownDevice a100 = expect_ok(known_device("a100"));
  EXPECT_EQ(a100.machine.target, "cuda:sm_80");
  EXPECT_LT(a100.machine.read_bytes_per_us, 2.039e6);
  EXPECT_GT(a100.machine.dot_flops_per_us.at("bf16"), 2e8);
  EXPECT_EQ(a100.machine.dot_flops_per_us.at("f8e4m3"), a100.machine.f32_flops_per_us);
  const KnownDevice l40s = expect_ok(known_device("l40s"));
  EXPECT_EQ(l40s.machine.dot_flops_per_us.at("f8e4m3"), l40s.machine.dot_flops_per_us.at("i8"));
  for (const char* name : {"b200", "gb200", "rtx5090", "rtxpro6000", "mi350x"}) {
    const Machine machine = expect_ok(known_device(name)).machine;
    EXPECT_TRUE(target::check_gpu_target(machine.target).ok()) << machine.target;
    EXPECT_GE(machine.cache_bytes_per_us, machine.read_bytes_per_us) << name;
    EXPECT_GT(machine.dot_flops_per_us.at("f8e4m3"), machine.dot_flops_per_us.at("bf16")) << name;
  }
  const auto none = known_device("abacus");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("a100, l40s, h200, h100, b200, gb200, rtx5090, rtxpro6000, mi350x"));
}

TEST(Predict, ChoosesWhatTheModelPrefersAndMeasuresNothing) {
  const auto specs =
      expect_ok(parse_jobs(std::string(kSoftmax) + R"("space":{"BLOCK":[4096],"num_warps":[1,4,32]}})", "jobs.jsonl"));
  simulated::FakeCompiler compiler;
  const KnownDevice a100 = expect_ok(known_device("a100"));
  const BatchResult result = predict_batch(specs, compiler, a100, {});
  ASSERT_EQ(result.jobs.size(), 1u);
  ASSERT_TRUE(result.jobs[0].result) << result.jobs[0].error;
  const JobResult& job = *result.jobs[0].result;
  EXPECT_EQ(result.jobs[0].target, "cuda:sm_80");
  EXPECT_GT(job.best_us, 100);  // 268 MB at 2 TB/s
  EXPECT_LE(job.best_us, job.default_us);
  EXPECT_EQ(job.measured, 0u);
  EXPECT_THAT(shipped_lines(specs, result, true), HasSubstr(R"("predicted_for":"NVIDIA A100 80GB")"));
}

// One block of a long loop: the more parts, the better.
TEST(Predict, LoopsOfProductsOfFewBlocksAreSplit) {
  const auto specs = expect_ok(
      parse_jobs(R"({"kernel":"matmul","type":"bf16","shape":{"M":64,"N":64,"K":16384},)"
                 R"("space":{"BM":[64],"BN":[64],"BK":[128],"num_warps":[4],"num_stages":[3],"split_k":[1,4,16]}})",
                 "jobs.jsonl"));
  simulated::FakeCompiler compiler;
  const BatchResult result = predict_batch(specs, compiler, expect_ok(known_device("a100")), {});
  ASSERT_TRUE(result.jobs[0].result) << result.jobs[0].error;
  EXPECT_EQ(result.jobs[0].result->best.at("split_k"), 16);
}

// What compilers say counts: of a config that spills far the resources rule it out.
TEST(Predict, AConfigThatCannotRunIsNotChosen) {
  const auto specs =
      expect_ok(parse_jobs(std::string(kSoftmax) + R"("space":{"BLOCK":[4096],"num_warps":[1,4,32]}})", "jobs.jsonl"));
  simulated::FakeCompiler compiler;
  abi::Device& device = compiler.metadata.device.emplace();
  device.threads = 128;
  device.registers = 40;
  device.spill_bytes = 4096;
  const BatchResult result = predict_batch(specs, compiler, expect_ok(known_device("a100")), {});
  ASSERT_TRUE(result.jobs[0].result) << result.jobs[0].error;
  EXPECT_EQ(result.jobs[0].result->best, result.jobs[0].result->fallback);
}

}  // namespace
}  // namespace kiln::autotune
