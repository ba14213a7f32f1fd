// The kernel library through NVIDIA's assembler, without a GPU: every kernel on every processor, in its defaults there
// and in configs of its space. KILN_KERNELS_FULL=1 tries all of them; the default run a choice.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "harness.h"
#include "kiln/dsl/kernels.h"

namespace kiln::dsl {
inline void PrintTo(const LibraryKernel& kernel, std::ostream* out) { *out << kernel.name; }
}  // namespace kiln::dsl

namespace kiln::test {
namespace {

namespace lang = dsl::lang;

constexpr std::array kProcessors = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};

bool all_of_them() { return std::getenv("KILN_KERNELS_FULL") != nullptr; }

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
  nlohmann::json device;
  bool assembled = false;

  bool says(const std::string& text) const { return error.find(text) != std::string::npos; }
  bool is_not_lowered() const { return says("is not lowered to GPUs yet"); }
};

Outcome assemble(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const std::string& processor) {
  const auto artifact = compile(kernel, config, good_facts(kernel), "cuda:" + processor, "so");
  if (!artifact) return {artifact.error().message, {}, false};
  return {"", artifact->metadata.at("device"), artifact->metadata.at("emit") == "cubin"};
}

// ---- every kernel ----

class LibraryOnNvidia : public testing::TestWithParam<dsl::LibraryKernel> {};

// The defaults, and for the full run the ends of the space: all axes low, all high.
std::vector<dsl::ConstexprValues> configs_of(const dsl::Kernel& kernel) {
  std::vector<dsl::ConstexprValues> out = {{}};
  if (!all_of_them()) return out;
  dsl::ConstexprValues low, high;
  for (const dsl::SpaceAxis& axis : kernel.space) {
    low[axis.name] = axis.values.front();
    high[axis.name] = axis.values.back();
  }
  if (!low.empty()) out.insert(out.end(), {low, high});
  return out;
}

TEST_P(LibraryOnNvidia, IsAssembledForEveryProcessor) {
  const dsl::Kernel& kernel = **GetParam().ir;
  // The others share their code with one of these, but for what the full run looks at.
  const std::set<std::string> chosen = {"sm_80", "sm_90a"};
  for (const char* processor : kProcessors) {
    if (!all_of_them() && !chosen.contains(processor)) continue;
    for (const dsl::ConstexprValues& config : configs_of(kernel)) {
      const Outcome outcome = assemble(kernel, config, processor);
      const std::string about = std::string(processor) + " " + nlohmann::json(config).dump();
      if (outcome.is_not_lowered()) GTEST_SKIP() << outcome.error;
      // A config of a tuner's space may be too large, and says so.
      if (!config.empty() && outcome.says("bytes of shared memory a block")) continue;
      ASSERT_EQ(outcome.error, "") << about;
      if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
      EXPECT_GT(outcome.device.at("registers"), 0) << about;
      EXPECT_LE(outcome.device.at("registers"), 255) << about;
      const nlohmann::json& warnings = outcome.device.at("warnings");
      EXPECT_TRUE(warnings.empty() || !config.empty()) << about << warnings;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LibraryOnNvidia,
                         testing::ValuesIn(dsl::library_kernels().begin(), dsl::library_kernels().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- the kernels that count, with the registers they take ----

// The same kernel with another precision of its products.
dsl::Kernel with_precision(dsl::Kernel kernel, dsl::Precision precision) {
  auto visit = [&](auto& self, dsl::Region& region) -> void {
    for (dsl::Op& op : region.ops) {
      if (op.code == dsl::OpCode::kDot) op.attrs[0] = static_cast<int64_t>(precision);
      for (dsl::Region& inner : op.regions) self(self, inner);
    }
  };
  visit(visit, kernel.body);
  return kernel;
}

struct Flagship {
  std::string name;
  dsl::Kernel kernel;
  dsl::ConstexprValues config;
  // The most registers a thread may take: what was seen, and a little more. By processor; the others are like sm_80.
  std::map<std::string, int> registers;
};
void PrintTo(const Flagship& test, std::ostream* out) { *out << test.name; }

std::vector<Flagship> flagships() {
  const dsl::ConstexprValues tf32 = {{"BM", 128}, {"BN", 128}, {"BK", 32}, {"num_warps", 8}};
  return {
      {"vector_add", *kernels::vector_add().ir(), {}, {{"sm_80", 36}, {"sm_90a", 36}}},
      {"transpose", *kernels::transpose().ir(), {}, {{"sm_80", 48}, {"sm_90a", 48}}},
      {"row_sum", *kernels::row_sum().ir(), {}, {{"sm_80", 64}, {"sm_90a", 64}}},
      {"softmax", *kernels::softmax().ir(), {}, {{"sm_80", 48}, {"sm_90a", 48}}},
      {"softmax_8192", *kernels::softmax().ir(), {{"BLOCK", 8192}}, {{"sm_80", 80}, {"sm_90a", 80}}},
      // Two blocks on a multiprocessor.
      {"softmax_bf16_16384",
       *kernels::softmax<lang::bf16>().ir(),
       {{"BLOCK", 16384}, {"num_warps", 16}},
       {{"sm_80", 64}, {"sm_90a", 64}}},
      {"column_sum", *kernels::column_sum().ir(), {}, {{"sm_80", 64}, {"sm_90a", 64}}},
      {"cumsum_columns", *kernels::cumsum_columns().ir(), {}, {{"sm_80", 112}, {"sm_90a", 112}}},
      {"softmax_bf16", *kernels::softmax<lang::bf16>().ir(), {}, {{"sm_80", 72}, {"sm_90a", 72}}},
      {"layer_norm", *kernels::layer_norm().ir(), {}, {{"sm_80", 120}, {"sm_90a", 96}}},
      {"rms_norm_bf16", *kernels::rms_norm<lang::bf16>().ir(), {}, {{"sm_80", 72}, {"sm_90a", 72}}},
      {"matmul_f32", *kernels::matmul().ir(), {}, {{"sm_80", 184}, {"sm_90a", 184}}},
      {"matmul_tf32",
       with_precision(*kernels::matmul().ir(), dsl::Precision::kTf32),
       tf32,
       {{"sm_80", 208}, {"sm_90a", 232}}},
      {"matmul_bf16", *kernels::matmul<lang::bf16>().ir(), {}, {{"sm_80", 255}, {"sm_90a", 255}}},
      {"matmul_f16", *kernels::matmul<lang::f16>().ir(), {}, {{"sm_80", 255}, {"sm_90a", 255}}},
      {"matmul_i8", *kernels::matmul<lang::i8>().ir(), {}, {{"sm_80", 180}, {"sm_90a", 255}}},
      {"attention_bf16", *kernels::attention<lang::bf16>().ir(), {}, {{"sm_80", 255}, {"sm_90a", 255}}},
      {"attention_bf16_causal_128",
       *kernels::attention<lang::bf16>().ir(),
       {{"CAUSAL", 1}, {"D", 128}, {"BM", 64}},
       {{"sm_80", 232}, {"sm_90a", 232}}},
  };
}

class FlagshipOnNvidia : public testing::TestWithParam<Flagship> {};

TEST_P(FlagshipOnNvidia, KeepsToItsRegistersWithoutSpillsOrSerialisedInstructions) {
  const Flagship& test = GetParam();
  for (const char* processor : kProcessors) {
    const auto known = test.registers.find(processor);
    if (!all_of_them() && known == test.registers.end()) continue;
    const Outcome outcome = assemble(test.kernel, test.config, processor);
    ASSERT_EQ(outcome.error, "") << processor;
    if (!outcome.assembled) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
    EXPECT_EQ(outcome.device.at("spill_bytes"), 0) << processor;
    EXPECT_TRUE(outcome.device.at("warnings").empty()) << processor << outcome.device.at("warnings");
    const int most = known == test.registers.end() ? test.registers.at("sm_80") : known->second;
    EXPECT_LE(outcome.device.at("registers"), most) << processor;
    if (std::getenv("KILN_KERNELS_SHOW")) {
      std::printf("%s %s: %s\n", test.name.c_str(), processor, outcome.device.dump().c_str());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, FlagshipOnNvidia, testing::ValuesIn(flagships()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln::test
