// Kernels for NVIDIA GPUs, without one: the PTX, and the machine code where the machine has NVIDIA's assembler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>

#include "harness.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "kiln/target/gpu.h"

namespace kiln::test {
namespace {

dsl::Kernel example(const std::string& name) {
  std::ifstream in(std::string(KILN_SOURCE_DIR) + "/dsl/examples/" + name + ".kiln");
  std::stringstream text;
  text << in.rdbuf();
  auto kernel = dsl::parse(text.str(), name);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return *kernel;
}

// Aligned pointers and extents that are multiples of 16.
dsl::Facts good_facts(const dsl::Kernel& kernel) {
  dsl::Facts out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(param.type.pointer                  ? dsl::ParamFact::kAlign16
                  : dsl::is_float(param.type.element) ? dsl::ParamFact::kNone
                                                      : dsl::ParamFact::kMultiple16);
  }
  return out;
}

std::string text_of(const Artifact& artifact) {
  return {reinterpret_cast<const char*>(artifact.code.data()), artifact.code.size()};
}

size_t count(const std::string& text, const std::string& what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
  return out;
}

struct GpuCase {
  std::string kernel;
  dsl::ConstexprValues config;
};
void PrintTo(const GpuCase& test, std::ostream* out) { *out << test.kernel; }

class OnNvidia : public testing::TestWithParam<GpuCase> {};

TEST_P(OnNvidia, IsAssembledWithoutSpills) {
  const dsl::Kernel kernel = example(GetParam().kernel);
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
    for (const dsl::Facts& facts : {dsl::Facts(), good_facts(kernel)}) {
      const auto artifact = compile(kernel, GetParam().config, facts, target, "so");
      ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
      const abi::Device& device = *artifact->metadata.device;
      EXPECT_EQ(device.threads.value() % 32, 0);
      if (artifact->metadata.emit == "ptx") GTEST_SKIP() << "no libnvJitLink on this machine: PTX only";
      EXPECT_EQ(device.spill_bytes, 0) << target;
      EXPECT_GT(device.registers, 0);
      EXPECT_THAT(device.warnings.value(), testing::IsEmpty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnNvidia,
                         testing::Values(GpuCase{"vector_add", {{"BLOCK", 1024}}}, GpuCase{"gelu", {{"BLOCK", 512}}},
                                         GpuCase{"softmax", {{"BLOCK", 1024}}},
                                         GpuCase{"layer_norm", {{"BLOCK", 1024}}},
                                         GpuCase{"rms_norm", {{"BLOCK", 1024}}}, GpuCase{"row_sum", {{"BLOCK", 1024}}},
                                         GpuCase{"argmax", {{"BLOCK", 1024}}}, GpuCase{"sort_rows", {{"BLOCK", 1024}}},
                                         GpuCase{"topk", {{"BLOCK", 1024}}}, GpuCase{"cumsum_rows", {}},
                                         GpuCase{"cumsum_columns", {}}, GpuCase{"rotary", {}},
                                         GpuCase{"transpose", {{"BR", 32}, {"BC", 32}}},
                                         GpuCase{"matmul_i8", {{"BM", 64}, {"BN", 64}, {"BK", 64}}},
                                         GpuCase{"matmul_f32", {{"BM", 32}, {"BN", 64}, {"BK", 32}}}),
                         [](const testing::TestParamInfo<GpuCase>& info) { return info.param.kernel; });

// A thread waits for its own copies, and the last ones of a loop, which fill slots with zeros, are nobody's: another
// thread's may still be under way when the slots' memory is used for something else. (Found by racecheck.)
TEST(NvidiaCopies, EndForAllBeforeTheirMemoryIsUsedAgain) {
  const dsl::Kernel kernel = kernels::attention<lang::bf16>().ir().value();
  const dsl::ConstexprValues config = {{"D", 96},  {"CAUSAL", 1},  {"BM", 32},
                                       {"BN", 32}, {"WINDOW", 40}, {"num_stages", 3}};
  dsl::Facts facts = good_facts(kernel);  // one head of keys, whose strides nothing is known of: no tensor maps
  std::ranges::replace(facts, dsl::ParamFact::kMultiple16, dsl::ParamFact::kNone);
  facts[*kernel.find_param("kv_heads")] = dsl::ParamFact::kOne;
  const auto artifact = compile(kernel, config, facts, "cuda:sm_90a", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string ptx = text_of(*artifact);
  size_t loops = 0;
  for (size_t wait = 0; (wait = ptx.find("cp.async.wait_group 0;", wait)) != std::string::npos; ++wait, ++loops) {
    const size_t store = ptx.find("st.shared", wait);
    ASSERT_NE(store, std::string::npos);
    EXPECT_NE(ptx.substr(wait, store - wait).find("bar.sync"), std::string::npos) << ptx.substr(wait, store - wait);
  }
  EXPECT_GT(loops, 0u);
}

TEST(Nvidia, MovesSixteenBytesAtOnceWhereFactsAllow) {
  const dsl::Kernel kernel = example("vector_add");
  const auto plain = compile(kernel, {{"BLOCK", 1024}}, {}, "cuda:sm_80", "ptx");
  const auto good = compile(kernel, {{"BLOCK", 1024}}, good_facts(kernel), "cuda:sm_80", "ptx");
  ASSERT_TRUE(plain.ok() && good.ok());
  EXPECT_EQ(count(text_of(*plain), ".v4.b32"), 0u);
  // 1024 elements on 128 threads: two vectors of each of two inputs and one output.
  EXPECT_EQ(count(text_of(*good), "ld.global.v4.b32"), 4u);
  EXPECT_EQ(count(text_of(*good), "st.global.v4.b32"), 2u);
}

// gpu/analysis/constant_loads.h: a store that needs nothing of a load may be one to its address, and has to come behind
// it. What such loads read must not change as long as the kernel lasts, so that it cannot begin before others are done
// (nvptx/grid_wait.h).
TEST(Nvidia, LoadsMayBeLateWhereAllThatIsWrittenNeedsThem) {
  namespace lang = dsl::lang;
  struct Made {
    std::string ptx;
    bool waits = false;
  };
  const auto make = [](int64_t row, bool stores_first) -> Made {  // by 256 threads
    const auto def = lang::kernel("scaled", {"x", "w", "y", "z"},
                                  [&](lang::Ptr<const lang::f32> x, lang::Ptr<const lang::f32> w,
                                      lang::Ptr<lang::f32> y, lang::Ptr<lang::f32> z) {
                                    const lang::Value at = lang::arange(0, row), v = lang::load(x + at);
                                    if (stores_first) lang::store(z + at, v);
                                    lang::store(y + at, (v - lang::sum(v, 0)) * lang::load(w + at));
                                  });
    const auto artifact = compile(*def.ir(), {{"num_warps", 8}}, good_facts(*def.ir()), "cuda:sm_90a", "ptx");
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    if (!artifact) return {};
    return {text_of(*artifact), artifact->metadata.device->waits};
  };
  const Made all = make(8192, false), some = make(8192, true), is_short = make(4096, false);
  EXPECT_GT(count(all.ptx, "ld.global.nc."), 0u) << all.ptx;
  EXPECT_EQ(count(all.ptx, "ld.global.v4"), 0u) << all.ptx;
  EXPECT_GT(count(some.ptx, "ld.global.nc."), 0u) << some.ptx;  // of x
  EXPECT_GT(count(some.ptx, "ld.global.v4"), 0u) << some.ptx;   // of w
  EXPECT_EQ(count(is_short.ptx, "ld.global.nc."), 0u) << is_short.ptx;
  for (const Made& made : {all, some, is_short}) {
    EXPECT_EQ(made.waits, count(made.ptx, "ld.global.nc.") == 0) << made.ptx;
  }
}

TEST(Nvidia, ReductionsOfARowCostOneRoundTripThroughSharedMemory) {
  const dsl::Kernel kernel = example("row_sum");
  const auto artifact = compile(kernel, {{"BLOCK", 1024}}, good_facts(kernel), "cuda:sm_80", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(count(text_of(*artifact), "bar.sync"), 1u);
  EXPECT_EQ(count(text_of(*artifact), "shfl.sync.bfly"), 5u);
}

TEST(Nvidia, UsesMatrixInstructions) {
  const dsl::Kernel kernel = example("matmul_i8");
  const auto artifact = compile(kernel, {{"BM", 64}, {"BN", 64}, {"BK", 64}}, good_facts(kernel), "cuda:sm_80", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  // 64³ products of 16·8·32, a quarter of them by each of four warps.
  EXPECT_EQ(count(text_of(*artifact), "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), 16u);
}

TEST(Nvidia, NamesWhatItDoesNotKnow) {
  const dsl::Kernel kernel = example("vector_add");
  const auto unknown = compile(kernel, {{"BLOCK", 1024}}, {}, "cuda:sm_70", "ptx");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message,
            "target `cuda:sm_70`: no processor of NVIDIA that is known has the name `sm_70`; the nearest is sm_80, and "
            "`cuda` alone is the device of this machine");
  const auto emit = compile(kernel, {{"BLOCK", 1024}}, {}, "cuda:sm_80", "obj");
  ASSERT_FALSE(emit.ok());
  EXPECT_EQ(emit.error().message, "cannot emit `obj` for this target; there are cubin, ptx, asm, llvm, ir, ir:PASS");
}

// The least version that knows the processor, so that as many drivers as can be take it.
TEST(Nvidia, WritesPtxOfTheVersionThatIsTheProcessors) {
  const dsl::Kernel kernel = example("vector_add");
  for (const auto& [processor, version] :
       {std::pair("sm_80", "7.8"), std::pair("sm_89", "8.4"), std::pair("sm_90a", "8.4"), std::pair("sm_100", "8.6"),
        std::pair("sm_100a", "8.6"), std::pair("sm_103a", "8.8"), std::pair("sm_120", "8.7"),
        std::pair("sm_121a", "8.8")}) {
    const auto artifact = compile(kernel, {{"BLOCK", 1024}}, {}, std::string("cuda:") + processor, "ptx");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const std::string ptx = text_of(*artifact);
    EXPECT_EQ(count(ptx, std::string(".version ") + version + "\n"), 1u) << processor;
    EXPECT_EQ(count(ptx, std::string(".target ") + processor + "\n"), 1u) << processor;
  }
}

// For a device that is newer than all that are known: what a launcher loads is PTX even where an assembler is.
TEST(Nvidia, IsPtxForTheDriverWhereTheTargetSaysSo) {
  const dsl::Kernel kernel = example("vector_add");
  const auto artifact = compile(kernel, {{"BLOCK", 1024}}, {}, "cuda:compute_121", "so");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.emit, "ptx");
  EXPECT_EQ(artifact->metadata.target, "cuda:compute_121");
  EXPECT_EQ(count(text_of(*artifact), ".target sm_121\n"), 1u);
  const auto unknown = compile(kernel, {{"BLOCK", 1024}}, {}, "cuda:compute_90a", "ptx");
  ASSERT_FALSE(unknown.ok()) << "PTX of one processor alone is for no other";
}

// wgmma is sm_90a's alone; f8 has matrix units on sm_89 and from sm_120 on, and is unpacked elsewhere.
TEST(Nvidia, MultipliesByTheUnitsThatTheProcessorHas) {
  const dsl::Kernel bf16 = example("matmul_nt"), f8 = example("matmul_f8");
  const auto ptx_of = [](const dsl::Kernel& kernel, const std::string& processor) {
    const auto artifact = compile(kernel, {}, good_facts(kernel), "cuda:" + processor, "ptx");
    return artifact ? text_of(*artifact) : artifact.error().message;
  };
  for (const target::NvidiaGpu& gpu : target::nvidia_gpus()) {
    EXPECT_EQ(count(ptx_of(bf16, gpu.name), "wgmma.mma_async") > 0, std::string_view(gpu.name) == "sm_90a") << gpu.name;
    const std::string ptx = ptx_of(f8, gpu.name);
    const bool has_units = gpu.capability == 89 || gpu.capability >= 120;
    EXPECT_EQ(count(ptx, "m16n8k32.row.col.f32.e4m3.e4m3.f32 ") > 0, has_units) << gpu.name;
    EXPECT_EQ(count(ptx, "cp.async.bulk.tensor") > 0, gpu.capability >= 90) << gpu.name;
  }
}

// The weights of a layer, 256 KiB: their conversion for so few rows goes through shared memory by parts.
TEST(Nvidia, ConvertsByPartsWhatSharedMemoryDoesNotHold) {
  const auto artifact = compile(example("mlp_softshrink"), {{"BM", 16}}, {}, "cuda:sm_80", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_LE(artifact->metadata.device->shared_bytes.value(), 166912);
}

TEST(Nvidia, MatmulOnHopperIsWgmmaFedByTma) {
  const dsl::Kernel kernel = example("matmul");
  const auto artifact = compile(kernel, {}, good_facts(kernel), "cuda:sm_90a", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text = text_of(*artifact);
  EXPECT_GE(count(text, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"), 4u);  // the k steps of a block
  EXPECT_GE(count(text, "cp.async.bulk.tensor.2d.shared::cluster.global"), 2u);
  EXPECT_GE(count(text, "cp.async.bulk.tensor.2d.global.shared::cta"), 1u);
  EXPECT_EQ(artifact->metadata.device->tensor_maps.size(), 3u);
  // Products of one block run while the copies for the next ones are made.
  EXPECT_EQ(count(text, "wgmma.wait_group.sync.aligned 1"), 1u);
}

// Behind the product with the next keys, whose result is waited for alone; the last one behind the loop.
TEST(Nvidia, ProductsOfWeightsWithValuesRunBesideTheNextBlocksSoftmax) {
  const auto kernel = dsl::lang::kernels::attention<dsl::lang::bf16>().ir();
  const dsl::ConstexprValues config = {{"num_warps", 8}, {"BM", 128}};
  const auto artifact = compile(*kernel, config, good_facts(*kernel), "cuda:sm_90a", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text = text_of(*artifact);
  const size_t loop = text.find("wgmma.wait_group.sync.aligned 1");
  ASSERT_NE(loop, std::string::npos);
  const std::string behind = text.substr(loop);
  // LLVM puts the loop's head there: it waits for a slot, begins both products, and waits for a slot that is free.
  const size_t head = behind.find("mbarrier.try_wait"), refill = behind.find("mbarrier.try_wait", head + 1);
  EXPECT_EQ(count(behind.substr(head, refill - head), "wgmma.commit_group"), 2u);
  EXPECT_LT(behind.find("ex2.approx"), behind.find("wgmma.wait_group.sync.aligned 0"));
  // Warps hand slots over, no barrier keeps them together.
  EXPECT_EQ(behind.substr(0, behind.find("wgmma.wait_group.sync.aligned 0")).find("bar.sync"), std::string::npos);
}

TEST(Nvidia, LoadsOfLoopsAreCopiedAheadOnAmpere) {
  const dsl::Kernel kernel = example("matmul");
  const auto artifact = compile(kernel, {{"num_stages", 3}}, good_facts(kernel), "cuda:sm_80", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text = text_of(*artifact);
  EXPECT_EQ(count(text, "cp.async.wait_group 1"), 1u);
  EXPECT_GT(count(text, "cp.async.cg.shared.global"), 0u);
  EXPECT_GT(count(text, "ldmatrix.sync.aligned.m8n8.x4"), 0u);
  EXPECT_EQ(count(text, "ld.global"), 0u);
}

// One that left alone could be waited for by those of its warp that go on.
TEST(Nvidia, LanesLeaveAnExchangeLoopTogether) {
  const auto kernel = dsl::parse(R"(kernel most(%x: ptr<f16>) {
  grid [1, 1, 1]

  %i = arange {start = 0, end = 64} : tile<[64], i32>
  %p = splat %x {shape = [64]} : tile<[64], ptr<f16>>
  %q = addptr %p, %i : tile<[64], ptr<f16>>
  %one = constant {value = 1.0, type = f16} : f16
  %v = splat %one {shape = [64]} : tile<[64], f16>
  %old = atomic_rmw %q, %v {kind = max} : tile<[64], f16>
}
)",
                                 "most.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto artifact = compile(*kernel, {}, {}, "cuda:sm_80", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string ptx = text_of(*artifact);
  EXPECT_EQ(count(ptx, ".cas.b16"), 1u) << ptx;
  EXPECT_EQ(count(ptx, "vote.sync.any.pred"), 1u) << ptx;
}

// -0 / x is -0: the last correction, of +0, would lose the sign.
TEST(Nvidia, QuotientsByDoublesKeepTheSignOfZero) {
  const auto artifact = compile(example("softmax"), {{"BLOCK", 1024}}, {}, "cuda:sm_80", "llvm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text = text_of(*artifact);
  const size_t estimate = text.find("call double @llvm.nvvm.rcp.approx.ftz.d");
  ASSERT_NE(estimate, std::string::npos);
  EXPECT_NE(text.find("@llvm.copysign.f", estimate), std::string::npos);
}

// LLVM 22 took the lower 32 bits of the distance, and dropped the comparison that guards the rest.
TEST(Nvidia, ShiftsOf64BitsLookAtTheWholeDistance) {
  for (const char* op : {"shl", "shr"}) {
    const auto kernel = dsl::parse(
        "kernel shifts(%x: ptr<u64>, %n: u64) {\n"
        "  grid [1, 1, 1]\n"
        "  %v = load %x : u64\n"
        "  %s = " +
            std::string(op) +
            " %v, %n : u64\n"
            "  store %x, %s\n}\n",
        "shifts.kiln");
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto artifact = compile(*kernel, {}, {}, "cuda:sm_90a", "ptx");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const std::string ptx = text_of(*artifact);
    EXPECT_EQ(count(ptx, "min.u64"), 1u) << ptx;
  }
}

// Two compilers may work for one cache: code does not hang on where the compiler's own objects lie.
TEST(Nvidia, CodeIsTheSameWhereverItIsMade) {
  for (const auto& [name, config] :
       {std::pair<std::string, dsl::ConstexprValues>("cumsum_rows", {}), {"topk", {{"BLOCK", 1024}}}}) {
    const dsl::Kernel kernel = example(name);
    std::vector<std::unique_ptr<char[]>> between;
    std::string first;
    for (size_t run = 0; run < 4; ++run) {
      const auto artifact = compile(kernel, config, {}, "cuda:sm_80", "ptx");
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      if (run == 0) first = text_of(*artifact);
      EXPECT_TRUE(text_of(*artifact) == first) << name;
      // Holes of other sizes for the next one's objects.
      for (size_t i = 0; i < 4000; ++i) {
        between.push_back(std::make_unique<char[]>(16 + (i * 37 + run * 11) % 400));
        if (i % 3 == run % 3) between[between.size() / 2].reset();
      }
    }
  }
}

// Taken out first, each half of a word would cost an instruction more.
TEST(Nvidia, HalvesOfWordsBecomeF32ByOneInstruction) {
  const auto kernel = dsl::parse(R"(kernel widen(%x: ptr<bf16> readonly, %y: ptr<f32>) {
  %i = arange {start = 0, end = 256} : tile<[256], i32>
  %b = splat %x {shape = [256]} : tile<[256], ptr<bf16>>
  %p = addptr %b, %i : tile<[256], ptr<bf16>>
  %v = load %p : tile<[256], bf16>
  %f = cast %v {to = f32} : tile<[256], f32>
  %o = splat %y {shape = [256]} : tile<[256], ptr<f32>>
  %q = addptr %o, %i : tile<[256], ptr<f32>>
  store %q, %f
}
)",
                                 "widen.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const dsl::Facts aligned = {dsl::ParamFact::kAlign16, dsl::ParamFact::kAlign16};
  const auto artifact = compile(*kernel, {{"num_warps", 1}}, aligned, "cuda:sm_80", "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string ptx = text_of(*artifact);
  EXPECT_EQ(count(ptx, "ld.global.v4.b32"), 1u) << ptx;
  EXPECT_EQ(count(ptx, ", -65536;"), 4u) << ptx;
  EXPECT_EQ(count(ptx, "cvt.u32.u16"), 0u) << ptx;
}

TEST(Nvidia, NamesTheTileOfASortThatDoesNotFit) {
  const auto sort = compile(example("sort_rows"), {{"BLOCK", 65536}}, {}, "cuda:sm_80", "ptx");
  ASSERT_FALSE(sort.ok());
  const std::string& message = sort.error().message;
  EXPECT_EQ(message.find("sort_rows:"), 0u) << message;
  EXPECT_NE(message.find(
                ": error: target `sm_80`: load: a conversion of layouts needs 262144 bytes of shared memory a block"),
            std::string::npos)
      << message;
}

// Measured as the fastest of their shapes: an estimate of what threads hold counts tiles whole that are stored by
// parts.
TEST(Nvidia, TakesWhatWasMeasuredToBeFast) {
  const auto expect_taken = [](const char* name, const dsl::ConstexprValues& config, const char* target) {
    const auto artifact = compile(example(name), config, {}, target, "ptx");
    EXPECT_TRUE(artifact.ok()) << name << ": " << artifact.error().message;
  };
  expect_taken("matmul_bias_act",
               {{"BM", 128}, {"BN", 192}, {"BK", 64}, {"num_stages", 4}, {"num_warps", 4}, {"warp_specialise", 4}},
               "cuda:sm_90a");
  expect_taken("matmul_w4", {{"BM", 128}, {"BN", 256}, {"BK", 128}, {"num_stages", 3}, {"num_warps", 8}}, "cuda:sm_80");
}

TEST(Nvidia, TakesMoreThanSharedMemoryHasForAnError) {
  const auto artifact =
      compile(example("matmul_f32"), {{"BM", 128}, {"BN", 128}, {"BK", 512}}, {}, "cuda:sm_80", "ptx");
  ASSERT_FALSE(artifact.ok());
  EXPECT_NE(artifact.error().message.find("bytes of shared memory a block; sm_80 has 166912"), std::string::npos)
      << artifact.error().message;
}

}  // namespace
}  // namespace kiln::test
