// Kernels whose code somebody else wrote, with a daemon of this test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <vector>

#include "kiln/client/artifact.h"
#include "kiln/client/client.h"
#include "patience.h"
#include "scratch.h"
#include "softshrink_code.h"

namespace kiln {
namespace {

using testing::HasSubstr;

class CustomKernels : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-custom-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    ::setenv("KILN_CACHE_DIR", (directory_ / "cache").c_str(), 1);
    ClientOptions options;
    options.connect.runtime_dir = (directory_ / "run").string();
    options.connect.kilnd_path = KILND_EXECUTABLE;
    options.connect.start_timeout = test::kPatience;
    connect_ = options.connect;
    client_ = std::make_unique<Client>(options);
  }
  void TearDown() override {
    client_ = nullptr;
    if (auto daemon = client::Connection::open(connect_)) (void)(*daemon)->shutdown();
    test::remove_scratch(directory_);
  }
  Client& client() { return *client_; }
  std::string refusal(const dsl::Kernel& declared, const CustomCode& code, const std::string& target = "cpu") {
    auto fn = client().get_custom(declared, code, {.target = target});
    return fn ? "none" : fn.error().message;
  }

 private:
  std::filesystem::path directory_;
  client::ConnectOptions connect_;
  std::unique_ptr<Client> client_;
};

dsl::Kernel declared(const std::string& text) {
  auto kernel = dsl::parse("kernel " + text, "declared");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return kernel.ok() ? *kernel : dsl::Kernel();
}

dsl::Kernel softshrink() {
  return declared(
      "softshrink(%x: ptr<f32> readonly, %out: ptr<f32>, %lambda: f32, %n: i32) {\n  grid [div(n + 255, 256), 1, "
      "1]\n}\n");
}

TEST_F(CustomKernels, LlvmIrRunsAsATypedHandle) {
  auto declaration = lang::kernel(
      "softshrink", {"x", "out", "lambda", "n"},
      [](lang::Ptr<const lang::f32>, lang::Ptr<lang::f32>, lang::f32, lang::i32 n) { lang::grid(lang::cdiv(n, 256)); });
  auto fn = client().get_custom(declaration, {.text = kSoftshrinkIr});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  for (const int n : {0, 1, 255, 256, 10'007}) {
    std::vector<float> x(static_cast<size_t>(n)), out(x.size() + 1, -7);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 2;
    auto done = fn->launch({.threads = 2}, x, out, 0.5f, n);
    ASSERT_TRUE(done.ok()) << done.error().message;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(out[i], std::copysign(std::max(std::abs(x[i]) - 0.5f, 0.0f), x[i])) << i << " of " << n;
    }
    EXPECT_EQ(out.back(), -7);
  }
  EXPECT_EQ(fn->untyped().metadata().served_from, "compile");
  auto again = client().get_custom(softshrink(), {.text = kSoftshrinkIr, .file = "elsewhere.ll"});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->metadata().served_from, "memory") << "a file's name is no part of the key";
}

// Each program once, whatever the number of threads, with its three numbers.
TEST_F(CustomKernels, AProgramKnowsItsNumbers) {
  const dsl::Kernel kernel = declared("numbers(%out: ptr<i32>, %w: i32) {\n  grid [w, 3, 2]\n}\n");
  auto fn = client().get_custom(kernel, CustomCode{.text = R"(
define void @of_program(ptr %out, i32 %w, i32 %x, i32 %y, i32 %z) {
  %plane = mul i32 %z, 3
  %line = add i32 %plane, %y
  %lines = mul i32 %line, %w
  %at = add i32 %lines, %x
  %to = getelementptr i32, ptr %out, i32 %at
  %old = load i32, ptr %to
  %tens = mul i32 %z, 10000
  %hundreds = mul i32 %y, 100
  %a = add i32 %tens, %hundreds
  %b = add i32 %a, %x
  %new = add i32 %old, %b
  store i32 %new, ptr %to
  ret void
}
)",
                                                   .entry = "of_program"});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::vector<int32_t> out(7 * 3 * 2);
  const std::array<dsl::Argument, 2> arguments = {client::to_argument(out.data()), client::to_argument(7)};
  ASSERT_TRUE(fn->launch(arguments, {.threads = 3}).ok());
  for (int i = 0; i < 42; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i / 21 * 10000 + i / 7 % 3 * 100 + i % 7) << i;
}

TEST_F(CustomKernels, WhatIsWrongIsNamedWithItsPlace) {
  const std::string text = kSoftshrinkIr;
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string out = text;
    return CustomCode{.text = out.replace(out.find(old), old.size(), now), .file = "mine.ll"};
  };
  const dsl::Kernel kernel = softshrink();
  EXPECT_EQ(refusal(kernel, with("store float %signed", "store flout %signed")), "mine.ll:21:9: expected type");
  EXPECT_THAT(refusal(kernel, with("@softshrink", "@softshrunk")), HasSubstr("mine.ll has no function `softshrink`"));
  EXPECT_EQ(refusal(kernel, with("float %lambda", "double %lambda")),
            "mine.ll:17:29: '%lambda' defined with type 'double' but expected 'float'");
  EXPECT_THAT(refusal(kernel, with("i32 %n, i32 %program", "i64 %other, i32 %n, i32 %program")),
              HasSubstr("no function of 4 parameters and the program's three numbers"));
  EXPECT_EQ(
      refusal(declared("softshrink(%x: ptr<f32>, %out: ptr<f32>, %lambda: f64, %n: i32) {\n  grid [n, 1, 1]\n}\n"),
              {.text = text}),
      "`softshrink`: the parameter `lambda` is declared as f64, and is float in the code");
  EXPECT_THAT(refusal(kernel, with("i32 %y, i32 %z", "i32 %y, i64 %z")),
              HasSubstr("the number of a program is an i32"));
  EXPECT_THAT(refusal(kernel, with("declare i32 @llvm.smin.i32(i32, i32)",
                                   "declare i32 @llvm.smin.i32(i32, i32)\ndeclare void @exit(i32)\n"
                                   "define void @other() {\n  call void @exit(i32 1)\n  ret void\n}\n")),
              HasSubstr("calls `exit`, which it does not have"));
  EXPECT_THAT(refusal(kernel, with("declare i32", "module asm \"nop\"\ndeclare i32")),
              HasSubstr("assembly of the module's"));
  EXPECT_THAT(refusal(kernel, {.text = "target triple = \"aarch64-linux-gnu\"\n" + text}),
              HasSubstr("softshrink.ll is for aarch64"));
  EXPECT_THAT(refusal(kernel, {.text = "\xff\xfe"}), HasSubstr("softshrink.ll:1:1: "));
  EXPECT_THAT(refusal(kernel, {}), HasSubstr("has no code"));
  EXPECT_THAT(refusal(kernel, {.form = CodeForm::kPtx, .text = ".version 8.0"}),
              HasSubstr("takes LLVM IR, and its code is PTX"));
  EXPECT_THAT(refusal(kernel, {.text = text, .threads = 4096}), HasSubstr("blocks have 1 to 1024 threads"));
  EXPECT_THAT(refusal(kernel, {.text = text}, "interp"), HasSubstr("the interpreter runs kernels of the language"));
  EXPECT_THAT(refusal(declared("k(%x: ptr<f32>) {\n  constexpr B = 4\n  grid [B, 1, 1]\n}\n"), {.text = text}),
              HasSubstr("`B` is a constexpr"));
  EXPECT_THAT(refusal(declared("k(%x: ptr<f32>) {\n  %v = load %x\n  store %x, %v\n}\n"), {.text = text}),
              HasSubstr("its declaration has ops"));
  EXPECT_TRUE(client().get_custom(kernel, {.text = text}).ok()) << "and the daemon goes on";
}

TEST_F(CustomKernels, NumbersOfEveryWidthArrive) {
  const dsl::Kernel kernel = declared(
      "widths(%out: ptr<f64>, %flag: i1, %a: i8, %b: u16, %c: i64, %d: f64, %e: f32) {\n  grid [1, 1, 1]\n}\n");
  auto fn = client().get_custom(kernel, CustomCode{.text = R"(
define void @widths(ptr %out, i8 %flag, i8 %a, i16 %b, i64 %c, double %d, float %e, i32 %x, i32 %y, i32 %z) {
  %f0 = uitofp i8 %flag to double
  %f1 = sitofp i8 %a to double
  %f2 = uitofp i16 %b to double
  %f3 = sitofp i64 %c to double
  %f5 = fpext float %e to double
  store double %f0, ptr %out
  %p1 = getelementptr double, ptr %out, i64 1
  store double %f1, ptr %p1
  %p2 = getelementptr double, ptr %out, i64 2
  store double %f2, ptr %p2
  %p3 = getelementptr double, ptr %out, i64 3
  store double %f3, ptr %p3
  %p4 = getelementptr double, ptr %out, i64 4
  store double %d, ptr %p4
  %p5 = getelementptr double, ptr %out, i64 5
  store double %f5, ptr %p5
  ret void
}
)"});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::vector<double> out(6);
  const std::vector<dsl::Argument> arguments = {client::to_argument(out.data()),
                                                client::to_argument(true),
                                                client::to_argument(int8_t{-3}),
                                                client::to_argument(uint16_t{65'000}),
                                                client::to_argument(int64_t{1} << 40),
                                                client::to_argument(0.1),
                                                client::to_argument(2.5f)};
  auto done = fn->launch(arguments);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(out, (std::vector<double>{1, -3, 65'000, 1099511627776.0, 0.1, 2.5}));
}

// A function of an object that somebody built: here y[p] += 1 + scale for each program p.
TEST_F(CustomKernels, AFunctionOfASharedObjectIsLaunched) {
  const dsl::Kernel kernel =
      declared("fake(%y: ptr<f32>, %fail_at: i32, %scale: f32, %scratch_bytes: i64, %n: i32) {\n  grid [n, 1, 1]\n}\n");
  auto fn = client::load_shared_object(kernel, FAKE_KERNEL, "kiln_entry");
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::vector<float> y(20, 1);
  const std::vector<dsl::Argument> arguments = {client::to_argument(y.data()), client::to_argument(-1),
                                                client::to_argument(0.5f), client::to_argument(int64_t{0}),
                                                client::to_argument(20)};
  auto done = fn->launch(arguments);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(y, std::vector<float>(20, 2.5f));
  auto none = client::load_shared_object(kernel, FAKE_KERNEL, "not_there");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::AllOf(HasSubstr(FAKE_KERNEL), HasSubstr("not_there")));
  auto away = client::load_shared_object(kernel, "/nowhere/mine.so", "f");
  ASSERT_FALSE(away.ok());
  EXPECT_THAT(away.error().message, HasSubstr("/nowhere/mine.so"));
}

}  // namespace
}  // namespace kiln
