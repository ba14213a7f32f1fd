// The kernel library through NVIDIA's assembler, without a GPU: every kernel on every processor, in its defaults there
// and in configs of its space, with facts and without. KILN_KERNELS_FULL=1 assembles all of them. The default run has a
// choice by turns: machine code of two processors, with facts for one and without for the other, and PTX with facts for
// another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "harness.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/library_names.h"
#include "kiln/dsl/walk.h"
#include "kiln/target/gpu.h"
#include "sampled.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using testing::IsEmpty;

// Whose machine code the default run makes, and whose PTX.
const std::vector<std::string> kChosen = {"sm_80", "sm_90a"};
const std::vector<std::string> kOthers = {"sm_86", "sm_89", "sm_90", "sm_100a", "sm_120"};

bool all_of_them() { return std::getenv("KILN_KERNELS_FULL") != nullptr; }

std::vector<std::string> all_processors() {
  std::vector<std::string> out;
  for (const target::NvidiaGpu& gpu : target::nvidia_gpus()) out.emplace_back(gpu.name);
  return out;
}

const target::NvidiaUnits& units_of(const std::string& processor) { return target::find_nvidia_gpu(processor)->units; }

// Aligned pointers and extents that are multiples of 16.
dsl::Facts good_facts(const dsl::Kernel& kernel) {
  dsl::Facts out;
  for (const dsl::Param& param : kernel.params) {
    const bool is_extent = !param.type.pointer && dsl::is_int(param.type.element);
    out.push_back(param.type.pointer ? dsl::ParamFact::kAlign16
                  : is_extent        ? dsl::ParamFact::kMultiple16
                                     : dsl::ParamFact::kNone);
  }
  return out;
}

// What a test says of a kernel on a processor.
struct Outcome {
  std::string error;
  abi::Device device;
  bool assembled = false;
  std::string code = {};
};

Outcome outcome_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const dsl::Facts& facts,
                   const std::string& processor, const std::string& emit = "so") {
  const auto artifact = compile(kernel, config, facts, "cuda:" + processor, emit);
  if (!artifact) return {artifact.error().message, {}, false};
  const std::string code(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  return {"", *artifact->metadata.device, artifact->metadata.emit == "cubin", code};
}

// All threads wait for earlier launches before any of them may touch global memory, or go another way.
void expect_waits_first(const std::string& ptx) {
  const size_t body = ptx.find(".visible .entry"), wait = ptx.find("griddepcontrol.wait", body);
  ASSERT_NE(wait, std::string::npos);
  const std::string before = ptx.substr(body, wait - body);
  for (const char* what : {"ld.global", "st.global", "atom", "red.", "cp.async", "bra", "ret;", "call"}) {
    EXPECT_EQ(before.find(what), std::string::npos) << what;
  }
}

// ---- every kernel ----

class LibraryOnNvidia : public testing::TestWithParam<std::string_view> {};

// The ends of the space: all axes low, all high.
std::vector<dsl::ConstexprValues> ends_of_space(const dsl::Kernel& kernel) {
  if (kernel.space.empty()) return {};
  dsl::ConstexprValues low, high;
  for (const dsl::SpaceAxis& axis : kernel.space) {
    low[axis.name] = axis.values.front();
    high[axis.name] = axis.values.back();
  }
  return {low, high};
}

// What spills in its defaults, in bytes a thread: what was seen, and a little more. None of these has a config without
// spills that is not slower, or larger, with facts.
struct KnownSpill {
  std::string kernel;
  std::set<std::string> processors;  // none: all of them
  bool has_facts;
  int64_t bytes;
};
const KnownSpill kKnownSpills[] = {
    // A third block on a multiprocessor is worth more.
    {"attention_f8", {"sm_90a"}, true, 184},
    // Without units for f8 both operands are words of f16.
    {"attention_f8", {"sm_80"}, false, 160},
    // A third block on a multiprocessor of 1536 threads.
    {"class_balanced_sampler_long", {"sm_86", "sm_89"}, true, 16},
    {"class_balanced_sampler_long", {"sm_86", "sm_89"}, false, 16},
    // Where nothing is known of pointers and rows, each element's address takes registers beside the sums.
    {"dlrm_interaction", {"sm_80", "sm_86", "sm_89"}, false, 400},
    {"layer_norm_backward", {"sm_80"}, false, 80},
    // A record of a network's sort, once.
    {"topk", {"sm_80"}, true, 56},
    {"embedding_order", {}, true, 64},
    {"embedding_order", {}, false, 32},
    // Registers that the division's subroutine keeps: doubles are too slow there for the inline one.
    {"layer_norm_backward", {"sm_86", "sm_89"}, false, 160},
    {"layer_norm_backward", {"sm_86", "sm_89"}, true, 160},
    // Two words, for once and not in the loop.
    {"matmul_f8", {"sm_80"}, true, 16},
    // 256 KiB of weights are one tile, 128 registers of each thread.
    {"mlp_softshrink", {}, false, 1000},
    {"mlp_softshrink", {}, true, 1100},
};

int64_t known_spills(const std::string& kernel, const std::string& processor, bool has_facts) {
  for (const KnownSpill& known : kKnownSpills) {
    const bool is_there = known.processors.empty() || known.processors.contains(processor);
    if (known.kernel == kernel && is_there && known.has_facts == has_facts) return known.bytes;
  }
  return 0;
}

struct Assembly {
  std::string processor;
  bool has_facts;
  bool in_full = true;  // or PTX alone
};

std::vector<Assembly> assemblies() {
  std::vector<Assembly> out;
  const bool first_has_facts = is_sampled(2);
  for (const std::string& processor : all_of_them() ? all_processors() : kChosen) {
    for (const bool has_facts : {true, false}) {
      const bool is_first = processor == kChosen[0];
      if (runs_all_cases() || all_of_them() || has_facts == (is_first == first_has_facts))
        out.push_back({processor, has_facts});
    }
  }
  if (!all_of_them()) {
    for (const std::string& processor : sampled(kOthers, 1)) out.push_back({processor, true, false});
  }
  return out;
}

TEST_P(LibraryOnNvidia, IsAssembledInItsDefaultsWithoutSpills) {
  const dsl::Kernel& kernel = **dsl::find_library_kernel(GetParam());
  for (const auto& [processor, has_facts, in_full] : assemblies()) {
    const std::string about = processor + (has_facts ? " with facts" : "");
    const Outcome outcome =
        outcome_of(kernel, {}, has_facts ? good_facts(kernel) : dsl::Facts(), processor, in_full ? "so" : "ptx");
    ASSERT_EQ(outcome.error, "") << about;
    if (!outcome.assembled && units_of(processor).waits_for_grids) expect_waits_first(outcome.code);
    if (!in_full) continue;
    if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
    EXPECT_GT(outcome.device.registers.value(), 0) << about;
    EXPECT_THAT(outcome.device.warnings.value(), IsEmpty()) << about;
    EXPECT_LE(outcome.device.spill_bytes.value(), known_spills(kernel.name, processor, has_facts)) << about;
  }
}

TEST_P(LibraryOnNvidia, IsAssembledAtTheEndsOfItsSpace) {
  if (!all_of_them()) GTEST_SKIP() << "KILN_KERNELS_FULL=1 runs it";
  const dsl::Kernel& kernel = **dsl::find_library_kernel(GetParam());
  for (const std::string& processor : all_processors()) {
    for (const dsl::ConstexprValues& config : ends_of_space(kernel)) {
      const Outcome outcome = outcome_of(kernel, config, good_facts(kernel), processor);
      // A config of a tuner's space may be too large, and says so.
      if (outcome.error.find("bytes of shared memory a block") != std::string::npos) continue;
      const std::string about = processor + " " + nlohmann::json(config).dump();
      ASSERT_EQ(outcome.error, "") << about;
      if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
      EXPECT_LE(outcome.device.registers.value(), 255) << about;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LibraryOnNvidia,
                         testing::ValuesIn(dsl::library_kernel_names().begin(), dsl::library_kernel_names().end()),
                         [](const auto& info) { return std::string(info.param); });

// ---- the kernels that count, with the registers they take ----

// The same kernel with another precision of its products.
dsl::Kernel with_precision(dsl::Kernel kernel, dsl::Precision precision) {
  dsl::for_each_op(kernel, [&](dsl::Op& op) {
    if (op.code == dsl::OpCode::kDot) op.attrs[0] = static_cast<int64_t>(precision);
  });
  return kernel;
}

struct Flagship {
  std::string name;
  std::function<dsl::Kernel()> kernel;  // traced by those who need it: each test is a process that knows all of them
  dsl::ConstexprValues config;
  // The most registers a thread may take, by processor: what was seen, and a little more.
  std::map<std::string, int> registers;
};
void PrintTo(const Flagship& test, std::ostream* out) { *out << test.name; }

std::map<std::string, int> ceilings(int sm_80, int sm_86, int sm_90, int sm_90a) {
  std::map<std::string, int> out = {
      {"sm_80", sm_80}, {"sm_86", sm_86}, {"sm_89", sm_86}, {"sm_90", sm_90}, {"sm_90a", sm_90a}};
  // As many as those with the same threads and shared memory take that multiply by single warps too.
  for (const char* processor : {"sm_100", "sm_100a", "sm_103", "sm_103a"}) out[processor] = sm_90;
  for (const char* processor : {"sm_120", "sm_120a", "sm_121", "sm_121a"}) out[processor] = sm_86;
  return out;
}

std::vector<Flagship> flagships() {
  const dsl::ConstexprValues tf32 = {{"BM", 128}, {"BN", 128}, {"BK", 32}, {"num_warps", 8}};
  return {
      {"vector_add", [] { return *kernels::vector_add().ir(); }, {}, ceilings(32, 32, 32, 32)},
      {"transpose", [] { return *kernels::transpose().ir(); }, {}, ceilings(40, 40, 40, 40)},
      {"row_sum", [] { return *kernels::row_sum().ir(); }, {}, ceilings(48, 48, 48, 48)},
      {"softmax", [] { return *kernels::softmax().ir(); }, {}, ceilings(40, 48, 48, 48)},
      {"softmax_8192", [] { return *kernels::softmax().ir(); }, {{"BLOCK", 8192}}, ceilings(64, 88, 88, 88)},
      // Two blocks on a multiprocessor.
      {"softmax_bf16_16384",
       [] { return *kernels::softmax<lang::bf16>().ir(); },
       {{"BLOCK", 16384}, {"num_warps", 16}},
       ceilings(64, 64, 64, 64)},
      {"column_sum", [] { return *kernels::column_sum().ir(); }, {}, ceilings(64, 64, 64, 64)},
      {"cumsum_columns", [] { return *kernels::cumsum_columns().ir(); }, {}, ceilings(112, 112, 112, 112)},
      {"softmax_bf16", [] { return *kernels::softmax<lang::bf16>().ir(); }, {}, ceilings(64, 64, 64, 64)},
      {"layer_norm", [] { return *kernels::layer_norm().ir(); }, {}, ceilings(64, 120, 64, 64)},
      {"rms_norm_bf16", [] { return *kernels::rms_norm<lang::bf16>().ir(); }, {}, ceilings(64, 88, 64, 64)},
      {"matmul_f32", [] { return *kernels::matmul().ir(); }, {}, ceilings(176, 176, 176, 176)},
      {"matmul_tf32", [] { return with_precision(*kernels::matmul().ir(), dsl::Precision::kTf32); }, tf32,
       ceilings(176, 200, 120, 112)},
      {"matmul_bf16", [] { return *kernels::matmul<lang::bf16>().ir(); }, {}, ceilings(180, 176, 128, 160)},
      {"matmul_f16", [] { return *kernels::matmul<lang::f16>().ir(); }, {}, ceilings(180, 176, 128, 160)},
      {"matmul_i8", [] { return *kernels::matmul<lang::i8>().ir(); }, {}, ceilings(128, 136, 128, 216)},
      // One block of 8 warps on a multiprocessor before sm_90, whatever its registers up to 255.
      {"attention_bf16", [] { return *kernels::attention<lang::bf16>().ir(); }, {}, ceilings(255, 255, 192, 136)},
      {"attention_bf16_causal_128",
       [] { return *kernels::attention<lang::bf16>().ir(); },
       {{"CAUSAL", 1}, {"D", 128}, {"BM", 64}},
       ceilings(208, 208, 208, 200)},
      {"attention_bf16_causal_96",
       [] { return *kernels::attention<lang::bf16>().ir(); },
       {{"CAUSAL", 1}, {"D", 96}, {"BM", 64}},
       ceilings(208, 208, 208, 200)},
  };
}

class FlagshipOnNvidia : public testing::TestWithParam<Flagship> {};

TEST_P(FlagshipOnNvidia, KeepsToItsRegistersWithoutSpillsOrSerialisedInstructions) {
  const Flagship& test = GetParam();
  const dsl::Kernel kernel = test.kernel();
  for (const std::string& processor : all_of_them() ? all_processors() : kChosen) {
    const Outcome outcome = outcome_of(kernel, test.config, good_facts(kernel), processor);
    ASSERT_EQ(outcome.error, "") << processor;
    if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
    EXPECT_EQ(outcome.device.spill_bytes.value(), 0) << processor;
    EXPECT_THAT(outcome.device.warnings.value(), IsEmpty()) << processor;
    EXPECT_LE(outcome.device.registers.value(), test.registers.at(processor)) << processor;
    if (std::getenv("KILN_KERNELS_SHOW")) {
      std::printf("%s %s:", test.name.c_str(), processor.c_str());
      for (const auto& [name, field] : abi::kDeviceNumbers) {
        if (const auto number = outcome.device.*field) std::printf(" %s %lld", name, static_cast<long long>(*number));
      }
      std::printf("\n");
    }
  }
}

// Warps that only copy leave the program's warps more registers than an equal share; nvJitLink alone cannot do that,
// and programs copy by themselves.
TEST(SpecialisedOnNvidia, HasRegistersToMoveAndSpillsNone) {
  const dsl::Kernel attention = *kernels::attention<lang::bf16>().ir(), matmul = *kernels::matmul<lang::bf16>().ir();
  const dsl::ConstexprValues wide = {{"D", 128}, {"BM", 128}, {"BN", 128}, {"num_warps", 8}, {"warp_specialise", 1}};
  std::vector<dsl::ConstexprValues> of_attention;
  for (int64_t width : {64, 96, 128}) {
    for (int64_t causal : {0, 1}) {
      for (int64_t specialised : {1, 2, 3}) {
        dsl::ConstexprValues config = wide;
        config["D"] = width, config["CAUSAL"] = causal, config["TOGETHER"] = 8 * causal;
        config["warp_specialise"] = specialised;
        of_attention.push_back(config);
      }
    }
  }
  std::vector<std::pair<dsl::Kernel, dsl::ConstexprValues>> cases = {{matmul, {{"warp_specialise", 1}}}};
  for (const dsl::ConstexprValues& config : sampled(of_attention, 4)) cases.emplace_back(attention, config);
  for (const auto& [kernel, config] : cases) {
    const Outcome outcome = outcome_of(kernel, config, good_facts(kernel), "sm_90a");
    ASSERT_EQ(outcome.error, "");
    if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
    EXPECT_EQ(outcome.device.persistent.has_value(), config.at("warp_specialise") >= 2) << kernel.name;
    // Loads of the loop and stores; the queries too, where the warps that copy fetch those of the next program.
    const bool fetches_queries = config.at("warp_specialise") >= 2;
    EXPECT_EQ(outcome.device.tensor_maps.size(), fetches_queries ? 4u : 3u) << kernel.name;
    EXPECT_EQ(outcome.device.spill_bytes.value(), 0) << kernel.name;
    EXPECT_THAT(outcome.device.warnings.value(), IsEmpty()) << kernel.name;
    if (outcome.device.threads.value() == 256) GTEST_SKIP() << "no ptxas on this machine";
    EXPECT_EQ(outcome.device.threads.value(), 256 + 128) << kernel.name;
    EXPECT_EQ(outcome.device.registers.value(), 168) << kernel.name;  // an equal share
  }
}

TEST(WideHeadsOnNvidia, SpillNothingOnHopper) {
  const dsl::Kernel attention = *kernels::attention<lang::bf16>().ir();
  for (const int64_t width : {96, 256}) {
    for (const int64_t causal : sampled(std::vector<int64_t>{0, 1}, 1)) {
      const dsl::ConstexprValues config = {{"D", width}, {"CAUSAL", causal}, {"TOGETHER", 8 * causal}};
      const Outcome outcome = outcome_of(attention, config, good_facts(attention), "sm_90a");
      ASSERT_EQ(outcome.error, "");
      if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
      EXPECT_EQ(outcome.device.spill_bytes.value(), 0) << width << " " << causal;
      EXPECT_THAT(outcome.device.warnings.value(), IsEmpty());
    }
  }
}

// Two products of a group one after the other, both with A from registers: the assembler would put a fence between
// them, and warn.
// Two stages of keys and values 256 wide leave an A100's block no room for its queries.
TEST(WideHeadsOnNvidia, HaveFewerStagesWhereTheRestNeedsTheMemory) {
  const dsl::Kernel& kernel = *kernels::attention<lang::bf16>().ir();
  for (const int64_t causal : {0, 1}) {
    const Outcome outcome = outcome_of(kernel, {{"D", 256}, {"CAUSAL", causal}}, good_facts(kernel), "sm_80", "ptx");
    ASSERT_EQ(outcome.error, "") << causal;
    EXPECT_LE(outcome.device.shared_bytes.value(), 163 * 1024) << causal;
  }
}

TEST(ProductsOnNvidia, HaveAFenceWhereRegistersOfAAreWritten) {
  const dsl::Kernel attention = *kernels::attention<lang::bf16>().ir();
  const dsl::ConstexprValues config = {{"D", 64}, {"BM", 128}, {"BN", 64}, {"num_warps", 4}};
  const Outcome outcome = outcome_of(attention, config, good_facts(attention), "sm_90a");
  ASSERT_EQ(outcome.error, "");
  if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
  EXPECT_EQ(outcome.device.spill_bytes.value(), 0);
  EXPECT_THAT(outcome.device.warnings.value(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Kernels, FlagshipOnNvidia, testing::ValuesIn(flagships()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln::test
