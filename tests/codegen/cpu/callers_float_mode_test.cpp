// A launch computes in its own float mode on every thread, whatever the caller's, and gives the caller's back.
#include "caller_mode.h"
#include "cuda_device.h"
#include "differential.h"
#include "kiln/client/artifact.h"
#include "kiln/client/gpu.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

// Quotients, functions, sums and products of numbers that are mostly tiny, by 64 programs.
std::string arithmetic_text(const std::string& type) {
  TextKernel k("%x: ptr<" + type + "> readonly, %y: ptr<" + type + ">, %z: ptr<f32>");
  k.grid = "64, 1, 1";
  const std::string far = k.op("mul " + k.op("program_id {axis = 0}") + ", " + k.constant("37", "i32"));
  const auto at = [&](const std::string& param) { return k.pointers(k.op("addptr " + param + ", " + far), {37}); };
  const std::string v = k.op("load " + at("%x"));
  const std::string q = k.op("div " + v + ", " + k.fill("3.0", type, {37}));
  const std::string e = k.op("add " + k.op("mul " + q + ", " + v) + ", " + q);
  k.line("store " + at("%y") + ", " + e);
  const std::string wide = type == "f32" ? q : k.op("cast " + q + " {to = f32}");
  const std::string f =
      k.op("add " + k.op("math " + wide + " {fn = sin}") + ", " + k.op("math " + wide + " {fn = exp2}"));
  k.line("store " + at("%z") + ", " + f);
  return k.text();
}

std::vector<TestArgument> tiny_arguments(ElementType type) {
  constexpr size_t kCount = 64 * 37;
  TestArgument x = random_buffer(type, kCount, 4, true);
  // A quarter subnormal: bits below the smallest normal number.
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  for (size_t i = 0; i < kCount; i += 4) {
    for (size_t byte = 1; byte < bytes; ++byte) x.buffer[i * bytes + byte] = std::byte{0};
    x.buffer[i * bytes] = static_cast<std::byte>(i % 7 + 1);
  }
  return {x, random_buffer(type, kCount, 5, false), random_buffer(ElementType::kF32, kCount, 6, false)};
}

TEST(CallersFloatMode, ChangesNoResultAndStays) {
  if (!wants_targets("cpu") || on_cuda()) GTEST_SKIP() << "of CPUs";
  for (const ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kF16, ElementType::kBF16}) {
    const dsl::Kernel kernel = parse_kernel(arithmetic_text(std::string(dsl::info(type).name)));
    auto artifact = compile(kernel, {});
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    std::vector<TestArgument> expected = tiny_arguments(type);
    auto ran = run_launched(kernel, *artifact, expected, {.threads = 1});
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    for (const CallerMode& mode : caller_modes()) {
      for (const int threads : {1, 4}) {
        std::vector<TestArgument> actual = tiny_arguments(type);
        bool fine = false;
        const uint64_t left =
            in_mode(mode, [&] { fine = run_launched(kernel, *artifact, actual, {.threads = threads}).ok(); });
        ASSERT_TRUE(fine);
        for (size_t i = 1; i < actual.size(); ++i) {
          EXPECT_EQ(actual[i].buffer, expected[i].buffer)
              << dsl::info(type).name << " " << mode.name << ", " << threads << " threads, argument " << i;
        }
        EXPECT_EQ(left, bits_of_mode(mode)) << mode.name;
      }
    }
  }
}

std::vector<client::Argument> raw(std::vector<TestArgument>& arguments) {
  std::vector<client::Argument> out;
  for (TestArgument& each : arguments) out.push_back({each.buffer.data(), 0, 0});
  return out;
}

// On a stream of the processors, and recorded there: its thread is begun in the caller's mode, and has it.
Result<void> launch_on_stream(const client::UntypedFunction& fn, std::vector<TestArgument>& arguments, int threads,
                              bool is_recorded) {
  const auto device = Device::open("cpu");
  if (!device) return device.error();
  const auto stream = Stream::create(*device);
  if (!stream) return stream.error();
  const auto launch = [&] { return fn.launch(raw(arguments), {.threads = threads, .stream = &*stream}); };
  if (is_recorded) {
    const auto recording = Recording::capture(*stream, launch);
    if (!recording) return recording.error();
    if (auto replayed = recording->replay(*stream); !replayed) return replayed;
  } else if (auto launched = launch(); !launched) {
    return launched;
  }
  return stream->synchronise();
}

TEST(CallersFloatMode, ChangesNoResultOnStreams) {
  if (!wants_targets("cpu") || on_cuda()) GTEST_SKIP() << "of CPUs";
  const dsl::Kernel kernel = parse_kernel(arithmetic_text("f32"));
  const auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const auto fn = client::load_artifact(kernel, *artifact);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::vector<TestArgument> expected = tiny_arguments(ElementType::kF32);
  ASSERT_TRUE(fn->launch(raw(expected), {.threads = 1}).ok());
  for (const CallerMode& mode : caller_modes()) {
    for (const bool is_recorded : {false, true}) {
      for (const int threads : {1, 4}) {
        std::vector<TestArgument> actual = tiny_arguments(ElementType::kF32);
        std::string failed;
        in_mode(mode, [&] {
          const auto done = launch_on_stream(*fn, actual, threads, is_recorded);
          if (!done) failed = done.error().message;
        });
        ASSERT_EQ(failed, "");
        for (size_t i = 1; i < actual.size(); ++i) {
          EXPECT_EQ(actual[i].buffer, expected[i].buffer)
              << mode.name << (is_recorded ? ", recorded, " : ", ") << threads << " threads, argument " << i;
        }
      }
    }
  }
}

// Code is the same too: constants are folded while it is made.
TEST(CallersFloatMode, ChangesNoCode) {
  if (!wants_targets("cpu") || on_cuda()) GTEST_SKIP() << "of CPUs";
  TextKernel k("%y: ptr<f32>");
  const std::string a = k.constant("0.1", "f32"), b = k.constant("1e-40", "f32"), c = k.constant("3.0", "f32");
  k.line("store %y, " + k.op("add " + k.op("div " + a + ", " + c) + ", " + k.op("mul " + b + ", " + c)));
  const dsl::Kernel kernel = parse_kernel(k.text());
  auto expected = compile(kernel, {}, {}, "", "ir");
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const CallerMode& mode : caller_modes()) {
    auto artifact = Result<Artifact>(internal_error("not made"));
    in_mode(mode, [&] { artifact = compile(kernel, {}, {}, "", "ir"); });
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->code, expected->code) << mode.name;
  }
}

}  // namespace
}  // namespace kiln::test
