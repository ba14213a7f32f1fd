// The kernel library for AMD GPUs, without one: every kernel on every processor is assembled and linked, and what the
// code object says of it is what the HSA loader wants and what the artifact says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "kiln/dsl/kernels.h"
#include "kiln/dsl/library_names.h"
#include "loader_rules.h"
#include "requests/requests.h"
#include "sampled.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;

Result<Artifact> compile(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const std::string& target,
                         const std::string& emit = "so") {
  return compile_kernel(kernel, target, config, aligned_facts(kernel), emit);
}

// ---- what a loader reads ----

void expect_sound(const Artifact& artifact, const Gpu& gpu) {
  std::vector<std::string> problems;
  const CodeObject object = read_code_object(artifact.code, artifact.metadata.entry, problems);
  ASSERT_TRUE(problems.empty()) << nlohmann::json(problems);
  const std::string& entry = artifact.metadata.entry;
  EXPECT_THAT(violations(object, entry, gpu), testing::IsEmpty());

  const nlohmann::json& kernel = object.metadata.at("amdhsa.kernels")[0];
  const abi::Device& device = *artifact.metadata.device;
  EXPECT_EQ(kernel.at(".max_flat_workgroup_size"), device.threads.value());
  EXPECT_EQ(device.lds_bytes, object.descriptor.group_segment_bytes);
  EXPECT_EQ(device.scratch_bytes, object.descriptor.private_segment_bytes);
  EXPECT_EQ(kernel.at(".vgpr_count"), device.registers.value());
  EXPECT_EQ(kernel.at(".sgpr_count"), device.scalar_registers.value());
  EXPECT_GE(device.waves_per_simd, 1);
  EXPECT_EQ(device.threads.value() % gpu.lanes, 0);
  // The kernel's own arguments lie where the artifact says.
  const std::vector<abi::Metadata::Param>& params = artifact.metadata.params;
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_EQ(kernel.at(".args")[i].at(".offset"), params[i].offset);
    EXPECT_EQ(kernel.at(".args")[i].at(".name"), params[i].name);
  }
}

// A damaged one does not pass: the rules see what they speak of.
TEST(LoaderRules, NameWhatIsWrong) {
  const auto artifact = compile(*kernels::vector_add().ir(), {}, "amd:gfx942");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string& entry = artifact->metadata.entry;
  std::vector<std::string> problems;
  const CodeObject good = read_code_object(artifact->code, entry, problems);
  const auto expect = [&](const std::string& rule, const auto& damage) {
    CodeObject bad = good;
    damage(bad);
    EXPECT_THAT(violations(bad, entry, kGpus[2]), testing::Contains(testing::HasSubstr(rule)));
  };
  expect("e_flags name the processor", [](CodeObject& o) { o.flags ^= 1; });
  expect("XNACK", [](CodeObject& o) { o.flags ^= 0x300; });
  expect("ENTRY_BYTE_OFFSET", [](CodeObject& o) { o.descriptor.entry_offset += 256; });
  expect("STT_OBJECT", [](CodeObject& o) { o.descriptor_symbol.type = 0; });
  expect("protected", [](CodeObject& o) { o.entry.visibility = 0; });
  expect("GRANULATED_WORKITEM_VGPR_COUNT", [](CodeObject& o) { o.descriptor.rsrc1 ^= 32; });
  expect("ACCUM_OFFSET", [](CodeObject& o) { o.descriptor.rsrc3 = 0, o.descriptor.rsrc1 |= 4; });
  expect("FLOAT_DENORM_MODE", [](CodeObject& o) { o.descriptor.rsrc1 ^= 0x10000; });
  expect("USER_SGPR_COUNT", [](CodeObject& o) { o.descriptor.rsrc2 += 2; });
  expect("WAVEFRONT_SIZE32", [](CodeObject& o) { o.descriptor.properties ^= 1 << 10; });
  expect("ENABLE_PRIVATE_SEGMENT", [](CodeObject& o) { o.descriptor.rsrc2 ^= 1; });
  expect("reserved", [](CodeObject& o) { o.descriptor.reserved_is_zero = false; });
  const auto kernel = [](CodeObject& o) -> nlohmann::json& { return o.metadata["amdhsa.kernels"][0]; };
  expect("KERNARG_SIZE", [&](CodeObject& o) { kernel(o)[".kernarg_segment_size"] = 8; });
  expect("is aligned", [&](CodeObject& o) { kernel(o)[".args"][1][".offset"] = 9; });
  expect("each launch has", [&](CodeObject& o) { kernel(o)[".args"][2][".value_kind"] = "hidden_hostcall_buffer"; });
  expect("address space", [&](CodeObject& o) { kernel(o)[".args"][0].erase(".address_space"); });
  expect("amdhsa.version", [](CodeObject& o) { o.metadata["amdhsa.version"] = {1, 1}; });
}

// ---- every kernel ----

// Bytes of scratch a thread may have. mlp_softshrink takes some for values that it computes before a whole layer's f32
// weights fill the registers, and wants behind: they are stored and loaded once, outside of loops.
int64_t most_scratch(std::string_view kernel, std::string_view gpu) {
  if (kernel != "mlp_softshrink") return 0;
  return gpu == "gfx906" ? 320 : gpu == "gfx1250" ? 336 : 96;
}

// Neither are registers spilled but to that scratch.
void expect_scratch(const Artifact& artifact, int64_t most) {
  EXPECT_LE(artifact.metadata.device->scratch_bytes.value(), most);
  EXPECT_LE(artifact.metadata.device->spill_bytes.value(), most);
}

class LibraryOnAmd : public testing::TestWithParam<std::string_view> {};

// One by turns; all of them with KILN_TEST_ALL, and where KILN_TEST_TARGETS is "amd".
std::vector<Gpu> processors_for(std::string_view kernel) {
  const char* wanted = std::getenv("KILN_TEST_TARGETS");
  if (runs_all_cases() || (wanted && std::string_view(wanted) == "amd")) return {std::begin(kGpus), std::end(kGpus)};
  const auto names = dsl::library_kernel_names();
  const auto place = static_cast<size_t>(std::ranges::find(names, kernel) - names.begin());
  return {kGpus[place % std::size(kGpus)]};
}

TEST_P(LibraryOnAmd, IsLinkedForEveryProcessorWithoutScratch) {
  const dsl::Kernel& kernel = **dsl::find_library_kernel(GetParam());
  for (const Gpu& gpu : processors_for(GetParam())) {
    SCOPED_TRACE(gpu.name);
    const auto artifact = compile(kernel, {}, std::string("amd:") + gpu.name);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.emit, "hsaco");
    expect_sound(*artifact, gpu);
    expect_scratch(*artifact, most_scratch(GetParam(), gpu.name));
  }
}

// The sampler, which selects twice in a block, has more masks of lanes than there are scalar registers on most
// processors: they are kept in lanes of vector registers. That costs no memory, and nobody is told that it does.
TEST(SpillsOnAmd, OfScalarRegistersAreNoMemory) {
  int64_t scalars = 0;
  for (const Gpu& gpu : kGpus) {
    SCOPED_TRACE(gpu.name);
    const auto artifact =
        compile(*kernels::class_balanced_sampler<lang::f32>().ir(), {}, std::string("amd:") + gpu.name);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    scalars += artifact->metadata.device->scalar_spills.value();
    expect_scratch(*artifact, 0);
  }
  EXPECT_GT(scalars, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, LibraryOnAmd,
                         testing::ValuesIn(dsl::library_kernel_names().begin(), dsl::library_kernel_names().end()),
                         [](const auto& info) { return std::string(info.param); });

// ---- kernels of other types than dsl/examples has ----

struct Flagship {
  std::string name;
  std::function<dsl::Kernel()> kernel;
};
void PrintTo(const Flagship& test, std::ostream* out) { *out << test.name; }

class FlagshipOnAmd : public testing::TestWithParam<Flagship> {};

TEST_P(FlagshipOnAmd, TakesNoScratch) {
  const dsl::Kernel kernel = GetParam().kernel();
  for (const char* gpu : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250"}) {
    const auto artifact = compile(kernel, {}, std::string("amd:") + gpu);
    ASSERT_TRUE(artifact.ok()) << gpu << ": " << artifact.error().message;
    SCOPED_TRACE(gpu);
    expect_scratch(*artifact, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, FlagshipOnAmd,
    testing::Values(Flagship{"rms_norm_bf16", [] { return *kernels::rms_norm<lang::bf16>().ir(); }},
                    Flagship{"matmul_f16", [] { return *kernels::matmul<lang::f16>().ir(); }},
                    Flagship{"attention_bf16", [] { return *kernels::attention<lang::bf16>().ir(); }}),
    [](const auto& info) { return info.param.name; });

// ---- words ----

TEST(Amd, NamesWhatItDoesNotKnow) {
  const dsl::Kernel& kernel = *kernels::vector_add().ir();
  const auto unknown = compile(kernel, {}, "amd:gfx1101");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(
      unknown.error().message,
      "target `amd:gfx1101`: no processor of AMD that is known has the name `gfx1101`; the nearest is gfx1100, and "
      "`amd` alone is the device of this machine");
  const auto emit = compile(kernel, {}, "amd:gfx942", "ptx");
  ASSERT_FALSE(emit.ok());
  EXPECT_EQ(emit.error().message, "cannot emit `ptx` for this target; there are hsaco, obj, asm, llvm, ir, ir:PASS");
}

// A kernel without shared memory: where that leaves room for fewer waves, they may have more registers.
TEST(Amd, WavesPerEuLeavesFewerRegisters) {
  const dsl::Kernel& kernel = *kernels::softmax<lang::f32>().ir();
  const dsl::ConstexprValues row = {{"BLOCK", 8192}, {"num_warps", 1}};
  dsl::ConstexprValues row_of_four_waves = row;
  row_of_four_waves["waves_per_eu"] = 4;
  const auto plain = compile(kernel, row, "amd:gfx942");
  const auto dense = compile(kernel, row_of_four_waves, "amd:gfx942");
  ASSERT_TRUE(plain.ok() && dense.ok());
  EXPECT_GT(plain->metadata.device->registers.value(), 128);
  EXPECT_LE(dense->metadata.device->registers.value(), 128);
}

// What generates code is kept from one compile to the next, and remembers nothing.
TEST(Amd, CodeIsTheSameTheSecondTime) {
  const dsl::Kernel& kernel = *kernels::softmax<lang::f32>().ir();
  for (const char* form : {"asm", "obj", "hsaco"}) {
    const auto first = compile(kernel, {}, "amd:gfx90a", form), second = compile(kernel, {}, "amd:gfx90a", form);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->code, second->code) << form;
  }
}

}  // namespace
}  // namespace kiln::test
