// Custom kernels: LLVM IR, PTX and assembly of AMD's GPUs become code that a launch takes, or a refusal with its place.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "custom_kernels.h"

namespace kiln::test {
namespace {

using dsl::CodeForm;
using dsl::CustomCode;
using testing::HasSubstr;

// Where the element's number comes from, and the address space of arrays.
std::string softshrink_ir(const std::string& kind, const std::string& block, const std::string& thread,
                          const std::string& space) {
  return "define " + kind + " void @softshrink(ptr" + space + " %x, ptr" + space + " %out, float %lambda, i32 %n) {\n" +
         "  %group = call i32 @" + block + "()\n  %lane = call i32 @" + thread + "()\n" +
         R"(  %first = mul i32 %group, 64
  %i = add i32 %first, %lane
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %body, label %done
body:
  %from = getelementptr float, ptr)" +
         space + R"( %x, i32 %i
  %value = load float, ptr)" +
         space + R"( %from
  %size = call float @llvm.fabs.f32(float %value)
  %less = fsub float %size, %lambda
  %more = fcmp ogt float %less, 0.0
  %kept = select i1 %more, float %less, float 0.0
  %signed = call float @llvm.copysign.f32(float %kept, float %value)
  %to = getelementptr float, ptr)" +
         space + R"( %out, i32 %i
  store float %signed, ptr)" +
         space + R"( %to
  br label %done
done:
  ret void
}
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
)" + "declare i32 @" +
         block + "()\ndeclare i32 @" + thread + "()\n";
}
std::string for_amd() {
  return softshrink_ir("amdgpu_kernel", "llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workitem.id.x", " addrspace(1)");
}
std::string for_nvidia() {
  return softshrink_ir("", "llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.tid.x", "");
}

dsl::CustomRequest softshrink(const std::string& target, CustomCode code) {
  code.threads = 64;
  return {declared("softshrink(%x: ptr<f32> readonly, %out: ptr<f32>, %lambda: f32, %n: i32) {\n"
                   "  grid [div(n + 63, 64), 1, 1]\n}\n"),
          std::move(code), target};
}

// 150 elements in three blocks of 64.
void expect_softshrink(const dsl::Kernel& kernel, const Artifact& artifact) {
  std::vector<float> x(150), out(150, -7), expected(150);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i)) * 2;
    expected[i] = std::copysign(std::max(std::abs(x[i]) - 0.5f, 0.0f), x[i]);
  }
  std::vector<TestArgument> arguments = {buffer(x), buffer(out), scalar_bits(std::bit_cast<uint32_t>(0.5f)),
                                         scalar_bits(150)};
  auto done = run_compiled(kernel, artifact, arguments);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(values_of<float>(arguments[1]), expected);
}

TEST(CustomOnAmd, LlvmIr) {
  for (const char* target : {"amd:gfx942", "amd:gfx1100"}) {
    const dsl::CustomRequest request = softshrink(target, {.text = for_amd()});
    auto artifact = compile_custom(request);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.emit, "hsaco");
    EXPECT_EQ(artifact->metadata.device->threads, 64);
    EXPECT_GT(artifact->metadata.device->registers, 0);
    expect_softshrink(request.declaration, *artifact);
  }
}

// A kernel of the language as assembly is text that somebody could have written.
TEST(CustomOnAmd, Assembly) {
  const std::string signature =
      "scale(%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {\n  grid [div(n + 255, 256), 1, 1]\n";
  const dsl::Kernel whole = declared(signature + R"(  %p = program_id {axis = 0} : i32
  %b = constant {value = 256, type = i32} : i32
  %first = mul %p, %b : i32
  %from = addptr %x, %first : ptr<f32>
  %froms = splat %from {shape = [256]} : tile<[256], ptr<f32>>
  %places = arange {start = 0, end = 256} : tile<[256], i32>
  %reads = addptr %froms, %places : tile<[256], ptr<f32>>
  %values = load %reads : tile<[256], f32>
  %twice = add %values, %values : tile<[256], f32>
  %to = addptr %out, %first : ptr<f32>
  %tos = splat %to {shape = [256]} : tile<[256], ptr<f32>>
  %writes = addptr %tos, %places : tile<[256], ptr<f32>>
  store %writes, %twice
}
)");
  auto written = compile(whole, {}, {}, "amd:gfx942", "asm");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const std::string text(reinterpret_cast<const char*>(written->code.data()), written->code.size());
  dsl::CustomRequest request = {declared(signature + "}\n"),
                                {.form = CodeForm::kAmdAssembly,
                                 .text = text,
                                 .entry = written->metadata.entry,
                                 .file = "mine.s",
                                 .threads = *written->metadata.device->threads},
                                "amd:gfx942"};
  auto artifact = compile_custom(request);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<float> x(512);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<TestArgument> arguments = {buffer(x), buffer(std::vector<float>(512)), scalar_bits(512)};
  auto done = run_compiled(request.declaration, *artifact, arguments);
  ASSERT_TRUE(done.ok()) << done.error().message;
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(values_of<float>(arguments[1])[i], 2 * x[i]) << i;

  const auto refusal = [&](const std::string& old, const std::string& now) {
    dsl::CustomRequest other = request;
    other.code.text.replace(text.find(old), old.size(), now);
    return refusal_of(other);
  };
  const auto place = text.begin() + static_cast<std::ptrdiff_t>(text.find("s_endpgm"));
  const std::string line = std::to_string(1 + std::count(text.begin(), place, '\n'));
  EXPECT_THAT(refusal("s_endpgm", "s_endprogram"), HasSubstr("mine.s:" + line + ":"));
  EXPECT_THAT(refusal("s_endpgm", ".include \"/nowhere\""), HasSubstr("mine.s:" + line + ":"));
  request.code.entry = "other";
  EXPECT_THAT(refusal_of(request), HasSubstr("no kernel `other`"));
  request.code.entry = written->metadata.entry;
  request.declaration = declared("scale(%x: ptr<f32>, %n: i32) {\n  grid [n, 1, 1]\n}\n");
  EXPECT_THAT(refusal_of(request), HasSubstr("takes 3 arguments by its metadata, and the declaration has 2"));
  request.declaration = declared("scale(%x: ptr<f32>, %out: ptr<f32>, %n: i64) {\n  grid [n, 1, 1]\n}\n");
  EXPECT_THAT(refusal_of(request), HasSubstr("the parameter `n` is 8 bytes at offset 16, and by its metadata 4 at 16"));
}

// On a machine with NVIDIA's GPU it runs too.
TEST(CustomOnNvidia, LlvmIrBecomesPtxThatIsTakenAgain) {
  const dsl::CustomRequest request = softshrink("cuda:compute_90", {.text = for_nvidia()});
  auto made = compile_custom(request);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->metadata.emit, "ptx");
  const std::string ptx(reinterpret_cast<const char*>(made->code.data()), made->code.size());
  EXPECT_THAT(ptx, testing::AllOf(HasSubstr(".entry softshrink("), HasSubstr(".maxntid 64"), HasSubstr("st.global")));
  const dsl::CustomRequest again = softshrink("cuda:sm_90", {.form = CodeForm::kPtx, .text = ptx});
  auto artifact = compile_custom(again);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.entry, "softshrink");
  EXPECT_EQ(artifact->metadata.device->threads, 64);
  const char* targets = std::getenv("KILN_TEST_TARGETS");
  if (targets && std::string_view(targets) == "cuda") expect_softshrink(again.declaration, *artifact);
}

TEST(CustomOnNvidia, ThePtxsParametersAreTheDeclarations) {
  const std::string head = ".version 8.0\n.target sm_80\n.address_size 64\n";
  const auto refusal = [&](const std::string& entry, const std::string& parameters) {
    return refusal_of({declared("k(" + parameters + ") {\n  grid [1, 1, 1]\n}\n"),
                       {.form = CodeForm::kPtx, .text = head + entry, .file = "k.ptx"},
                       "cuda:compute_80"});
  };
  const std::string body = "{\n  ret;\n}\n";
  const std::string three =
      ".visible .entry k( // what follows is (read)\n .param .u64 .ptr .global .align 4 x, /* , */\n .param .f32 a,\n"
      " .param .align 8 .b8 state[8]\n)\n";
  EXPECT_EQ(refusal(three + body, "%x: ptr<f32>, %a: f32, %s: i64"), "none");
  EXPECT_EQ(refusal(".entry k" + body, ""), "none");
  EXPECT_EQ(refusal(".entry k()" + body, ""), "none");
  EXPECT_EQ(refusal(three + ".maxntid 64\n" + body, "%x: ptr<f32>, %a: f32, %s: i64"), "none");
  EXPECT_EQ(refusal(three + body, "%x: ptr<f32>, %a: f32"), "k.ptx: `k` takes 3 parameters, and the declaration has 2");
  EXPECT_EQ(refusal(three + body, "%x: ptr<f32>, %a: f64, %s: i64"),
            "k.ptx: `k`: the parameter `a` is declared as f64 of 8 bytes, and has 4 in the code");
  EXPECT_EQ(refusal(".entry kk(" + body, ""), "k.ptx has no `.entry k`");
  EXPECT_EQ(refusal("// .entry k()\n", ""), "k.ptx has no `.entry k`");
  EXPECT_EQ(refusal("/* .entry k()", ""), "k.ptx has no `.entry k`");
  EXPECT_THAT(refusal(".entry k( nonsense )" + body, "%n: i32"), HasSubstr("has 0 in the code"));
}

// What no target of LLVM's can do is an error too.
TEST(CustomKernels, AreForTheTargetsThatTakeThem) {
  EXPECT_THAT(refusal_of(softshrink("amd:gfx942", {.form = CodeForm::kPtx, .text = "x"})),
              HasSubstr("the target `amd:gfx942` takes assembly of AMD's GPUs or LLVM IR, and its code is PTX"));
  EXPECT_THAT(refusal_of(softshrink("cuda:sm_90", {.form = CodeForm::kAmdAssembly, .text = "x"})),
              HasSubstr("takes PTX or LLVM IR"));
  EXPECT_THAT(refusal_of(softshrink("cuda:sm_90", {.text = for_amd()})),
              testing::AllOf(HasSubstr("softshrink.ll calls `llvm.amdgcn.work"),
                             HasSubstr("which cuda:sm_90 has no instruction for")));
  EXPECT_THAT(refusal_of(softshrink("cuda:sm_91", {.text = for_nvidia()})), HasSubstr("sm_91"));
}

// Any bytes are a request or an error.
TEST(CustomRequests, SurviveAnyBytes) {
  auto bytes = dsl::encode_custom_request(softshrink("cuda:sm_90", {.text = for_nvidia(), .file = "x.ll"}));
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  auto back = dsl::decode_custom_request(bytes->canonical, bytes->debug);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->code.text, for_nvidia());
  EXPECT_EQ(back->code.file, "x.ll");
  EXPECT_EQ(back->code.threads, 64);
  EXPECT_EQ(back->target, "cuda:sm_90");
  EXPECT_EQ(dsl::print(back->declaration), dsl::print(softshrink("", {}).declaration));
  for (size_t i = 0; i < bytes->canonical.size(); i += i < 400 ? 1 : 37) {
    std::vector<std::byte> cut(bytes->canonical.begin(), bytes->canonical.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(dsl::decode_custom_request(cut, {}).ok()) << i;
    for (const int bit : {0, 3, 7}) {
      std::vector<std::byte> flipped = bytes->canonical;
      flipped[i] ^= std::byte{1} << bit;
      (void)dsl::decode_custom_request(flipped, bytes->debug);
    }
  }
  EXPECT_FALSE(dsl::is_custom_request(std::vector<std::byte>(3)));
}

}  // namespace
}  // namespace kiln::test
