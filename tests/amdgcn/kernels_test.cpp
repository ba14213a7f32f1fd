// The kernel library for AMD GPUs, without one: every kernel on every processor is assembled and linked, and what the
// code object says of it is what the HSA loader wants and what the artifact says.
#include "kiln/dsl/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>

#include "code_object.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"

namespace kiln::dsl {
void PrintTo(const LibraryKernel& kernel, std::ostream* out) { *out << kernel.name; }
}  // namespace kiln::dsl

namespace kiln::test {
namespace {

namespace lang = dsl::lang;

// Machine numbers of e_flags, and lanes of a wave ("AMDGPU Usage").
struct Gpu {
  const char* name;
  uint32_t machine;
  int lanes, most_registers;
};
constexpr Gpu kGpus[] = {{"gfx906", 0x2f, 64, 256},
                         {"gfx90a", 0x3f, 64, 512},
                         {"gfx942", 0x4c, 64, 512},
                         {"gfx1100", 0x41, 32, 256},
                         {"gfx1200", 0x48, 32, 256}};

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

Result<Artifact> compile(const dsl::Kernel& kernel, dsl::ConstexprValues config, const std::string& target,
                         const std::string& emit = "so") {
  static const bool warm = [] {
    codegen::warm_up();
    return true;
  }();
  (void)warm;
  auto complete = dsl::complete_constexprs(kernel, config, target);
  if (!complete) return complete.error();
  auto request = dsl::encode_request({kernel, target, *complete, good_facts(kernel), emit});
  if (!request) return request.error();
  return codegen::compile(request->canonical, request->debug, {});
}

// ---- what a loader reads ----

void expect_sound(const Artifact& artifact, const Gpu& gpu) {
  std::vector<std::string> problems;
  const CodeObject object = read_code_object(artifact.code, artifact.metadata.at("entry"), problems);
  ASSERT_TRUE(problems.empty()) << nlohmann::json(problems);
  constexpr int kElfAmdgpu = 224, kAbiHsa = 64, kAbiVersion5 = 3, kShared = 3;
  EXPECT_EQ(object.machine, kElfAmdgpu);
  EXPECT_EQ(object.abi, kAbiHsa);
  EXPECT_EQ(object.abi_version, kAbiVersion5);
  EXPECT_EQ(object.type, kShared);
  EXPECT_EQ(object.flags & 0xff, gpu.machine);
  EXPECT_TRUE(object.entry_is_executable);
  // The loader wants the code at a multiple of 256 and the descriptor at one of 64.
  EXPECT_EQ(object.entry_address % 256, 0u);
  EXPECT_EQ(object.descriptor_address % 64, 0u);
  EXPECT_EQ(object.descriptor_address + static_cast<uint64_t>(object.descriptor.entry_offset), object.entry_address);

  const nlohmann::json& metadata = object.metadata;
  EXPECT_EQ(metadata.at("amdhsa.version"), nlohmann::json({1, 2}));  // of code object V5
  ASSERT_EQ(metadata.at("amdhsa.kernels").size(), 1u);
  const nlohmann::json& kernel = metadata.at("amdhsa.kernels")[0];
  const nlohmann::json& device = artifact.metadata.at("device");
  EXPECT_EQ(kernel.at(".name"), artifact.metadata.at("entry"));
  EXPECT_EQ(kernel.at(".symbol"), artifact.metadata.at("entry").get<std::string>() + ".kd");
  EXPECT_EQ(kernel.at(".wavefront_size"), gpu.lanes);
  EXPECT_EQ(kernel.at(".max_flat_workgroup_size"), device.at("threads"));
  EXPECT_EQ(kernel.at(".group_segment_fixed_size"), object.descriptor.group_segment_bytes);
  EXPECT_EQ(kernel.at(".private_segment_fixed_size"), object.descriptor.private_segment_bytes);
  EXPECT_EQ(kernel.at(".kernarg_segment_size"), object.descriptor.kernarg_bytes);
  EXPECT_FALSE(kernel.value(".uses_dynamic_stack", false));
  EXPECT_EQ((object.descriptor.properties >> 10 & 1) != 0, gpu.lanes == 32);  // ENABLE_WAVEFRONT_SIZE32
  // f32 and f16, f64: subnormals are kept, results are rounded to nearest (FLOAT_DENORM_MODE_*, FLOAT_ROUND_MODE_*).
  EXPECT_EQ(object.descriptor.rsrc1 >> 12 & 0xff, 0xf0u);

  EXPECT_EQ(device.at("lds_bytes"), object.descriptor.group_segment_bytes);
  EXPECT_EQ(device.at("scratch_bytes"), object.descriptor.private_segment_bytes);
  EXPECT_EQ(device.at("registers"), kernel.at(".vgpr_count"));
  EXPECT_EQ(device.at("scalar_registers"), kernel.at(".sgpr_count"));
  EXPECT_LE(device.at("registers"), gpu.most_registers);
  EXPECT_GE(device.at("waves_per_simd"), 1);
  EXPECT_EQ(device.at("threads").get<int>() % gpu.lanes, 0);
  // The kernel's own arguments lie where the artifact says.
  const nlohmann::json& params = artifact.metadata.at("params");
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_EQ(kernel.at(".args")[i].at(".offset"), params[i].at("offset"));
    EXPECT_EQ(kernel.at(".args")[i].at(".name"), params[i].at("name"));
  }
  // All arguments, hidden ones too, lie one behind the other at multiples of their sizes.
  const auto align = kernel.at(".kernarg_segment_align").get<uint32_t>();
  EXPECT_TRUE(std::has_single_bit(align)) << align;
  uint32_t end = 0;
  for (const nlohmann::json& argument : kernel.at(".args")) {
    const auto offset = argument.at(".offset").get<uint32_t>(), size = argument.at(".size").get<uint32_t>();
    EXPECT_GE(offset, end) << argument;
    EXPECT_EQ(offset % std::min(size, align), 0u) << argument;
    const bool is_pointer = argument.at(".value_kind") == "global_buffer";
    EXPECT_EQ(argument.value(".address_space", ""), is_pointer ? "global" : "") << argument;
    end = offset + size;
  }
  EXPECT_LE(end, object.descriptor.kernarg_bytes);
}

// ---- every kernel ----

// Those that matter most keep all in registers, where there are matrix instructions.
void expect_no_scratch(const Artifact& artifact) {
  EXPECT_EQ(artifact.metadata.at("device").at("scratch_bytes"), 0);
  EXPECT_EQ(artifact.metadata.at("device").at("spill_bytes"), 0);
}

class LibraryOnAmd : public testing::TestWithParam<dsl::LibraryKernel> {};

TEST_P(LibraryOnAmd, IsLinkedForEveryProcessor) {
  const dsl::Kernel& kernel = **GetParam().ir;
  for (const Gpu& gpu : kGpus) {
    SCOPED_TRACE(gpu.name);
    const auto artifact = compile(kernel, {}, std::string("amd:") + gpu.name);
    // A whole layer's weights in one block are too much for LDS, and it says so.
    if (!artifact && artifact.error().message.find("bytes of shared memory") != std::string::npos) {
      EXPECT_EQ(kernel.name, "mlp_softshrink") << artifact.error().message;
      continue;
    }
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.at("emit"), "hsaco");
    expect_sound(*artifact, gpu);
    static const std::set<std::string_view> kFlagships = {"vector_add", "transpose",  "row_sum", "softmax",
                                                          "layer_norm", "matmul_f32", "matmul",  "matmul_i8"};
    if (kFlagships.contains(GetParam().name) && std::string_view(gpu.name) != "gfx906") expect_no_scratch(*artifact);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LibraryOnAmd,
                         testing::ValuesIn(dsl::library_kernels().begin(), dsl::library_kernels().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- kernels of other types than dsl/examples has ----

struct Flagship {
  std::string name;
  dsl::Kernel kernel;
};
void PrintTo(const Flagship& test, std::ostream* out) { *out << test.name; }

class FlagshipOnAmd : public testing::TestWithParam<Flagship> {};

TEST_P(FlagshipOnAmd, TakesNoScratch) {
  for (const char* gpu : {"gfx90a", "gfx942", "gfx1100", "gfx1200"}) {
    const auto artifact = compile(GetParam().kernel, {}, std::string("amd:") + gpu);
    ASSERT_TRUE(artifact.ok()) << gpu << ": " << artifact.error().message;
    SCOPED_TRACE(gpu);
    expect_no_scratch(*artifact);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, FlagshipOnAmd,
                         testing::Values(Flagship{"rms_norm_bf16", *kernels::rms_norm<lang::bf16>().ir()},
                                         Flagship{"matmul_f16", *kernels::matmul<lang::f16>().ir()},
                                         Flagship{"attention_bf16", *kernels::attention<lang::bf16>().ir()}),
                         [](const auto& info) { return info.param.name; });

// ---- words ----

TEST(Amd, NamesWhatItDoesNotKnow) {
  const dsl::Kernel& kernel = *kernels::vector_add().ir();
  const auto unknown = compile(kernel, {}, "amd:gfx950");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message,
            "target `amd:gfx950`: an AMD target is amd:NAME with NAME one of gfx906, gfx90a, gfx942, gfx1100, gfx1200");
  const auto emit = compile(kernel, {}, "amd:gfx942", "ptx");
  ASSERT_FALSE(emit.ok());
  EXPECT_EQ(emit.error().message, "cannot emit `ptx` for this target; there are hsaco, obj, asm, llvm, ir, ir:PASS");
}

TEST(Amd, WavesPerEuLeavesFewerRegisters) {
  const dsl::Kernel& kernel = *kernels::matmul<lang::bf16>().ir();
  const auto plain = compile(kernel, {{"BK", 32}}, "amd:gfx942");
  const auto dense = compile(kernel, {{"BK", 32}, {"waves_per_eu", 4}}, "amd:gfx942");
  ASSERT_TRUE(plain.ok() && dense.ok());
  EXPECT_GT(plain->metadata.at("device").at("registers"), 128);
  EXPECT_LE(dense->metadata.at("device").at("registers"), 128);
}

}  // namespace
}  // namespace kiln::test
