// `kiln run --code`: code of one's own on files.
#include <gmock/gmock.h>

#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

using ::testing::HasSubstr;

// out[i] = x[i] + a, by one program for each element.
class CustomCode : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("shift.kiln",
          "kernel shift(%x: ptr<f32> readonly, %out: ptr<f32>, %a: f32, %n: i32) {\n  grid [n, 1, 1]\n}\n");
    write("shift.ll",
          "define void @mine(ptr %x, ptr %out, float %a, i32 %n, i32 %i, i32 %py, i32 %pz) {\n"
          "  %at = sext i32 %i to i64\n  %from = getelementptr float, ptr %x, i64 %at\n  %v = load float, ptr %from\n"
          "  %sum = fadd float %v, %a\n  %to = getelementptr float, ptr %out, i64 %at\n  store float %sum, ptr %to\n"
          "  ret void\n}\n");
    write_floats("x.npy", {1, 2, 3});
  }
  void TearDown() override {
    (void)kiln({"stop"});
    CliTest::TearDown();
  }
  Outcome shift(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"run", "shift.kiln", "x=@x.npy", "out=@out.npy:f32[3]", "a=0.5", "n=3"};
    words.insert(words.end(), more.begin(), more.end());
    return kiln(words);
  }
};

TEST_F(CustomCode, RunsOnFiles) {
  const Outcome outcome = shift({"--code", "shift.ll", "--entry", "mine"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_floats("out.npy"), (std::vector<float>{1.5, 2.5, 3.5}));
}

TEST_F(CustomCode, OfASharedObjectRuns) {
  write("mine.c",
        "#include \"kiln/abi/cpu_abi.h\"\n"
        "struct parameters { const float* x; float* out; float a; int32_t n; };\n"
        "int32_t shift_programs(const void* params, const uint32_t* grid, uint64_t first, uint64_t last, kiln_ctx* "
        "ctx) {\n"
        "  const struct parameters* p = params;\n  (void)grid, (void)ctx;\n"
        "  for (uint64_t i = first; i < last; ++i) p->out[i] = p->x[i] + p->a;\n  return KILN_OK;\n}\n");
  const std::string make = std::string(KILN_C_COMPILER) + " -shared -fPIC -I" KILN_DSL_INCLUDE " -o " +
                           path("mine.so") + " " + path("mine.c") + " 2>&1";
  ASSERT_EQ(std::system(make.c_str()), 0) << make;
  const Outcome outcome = shift({"--code", "mine.so", "--entry", "shift_programs"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_floats("out.npy"), (std::vector<float>{1.5, 2.5, 3.5}));
}

TEST_F(CustomCode, WhatIsWrongIsSaid) {
  write("bad.ll", "define void @shift(ptr %x) {\n  ret void\n");
  write("shift.txt", "");
  const auto errors = [&](const std::vector<std::string>& more) {
    const Outcome outcome = shift(more);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_FALSE(exists("out.npy"));
    return outcome.errors;
  };
  EXPECT_THAT(errors({"--code", "bad.ll"}), HasSubstr("bad.ll:"));
  EXPECT_THAT(errors({"--code", "shift.ll"}), HasSubstr("`shift`"));
  EXPECT_THAT(errors({"--code", "shift.txt"}), HasSubstr("--code shift.txt: neither .ll nor .ptx, .s or .so"));
  EXPECT_THAT(errors({"--code", "none.ll"}), HasSubstr("none.ll: cannot be opened"));
  EXPECT_THAT(errors({"--code", "none.so"}), HasSubstr("none.so"));
  EXPECT_THAT(errors({"--code", "shift.so", "--target", "cuda"}), HasSubstr("a shared object is for the target cpu"));
  EXPECT_THAT(errors({"--code", "shift.ll", "--facts", "x=align16"}), HasSubstr("--facts: code of --code is as it is"));
  write("axpy.kiln", kAxpy);
  const Outcome with_ops =
      kiln({"run", "axpy.kiln", "--code", "shift.ll", "x=@x.npy", "y=@x.npy", "z=@out.npy:f32[3]", "n=3", "a=1"});
  EXPECT_EQ(with_ops.code, 1);
  EXPECT_FALSE(exists("out.npy"));
  EXPECT_THAT(with_ops.errors, HasSubstr("axpy"));
  EXPECT_NE(kiln({"run", "axpy.kiln", "--entry", "f"}).code, 0);
}

}  // namespace
}  // namespace kiln::cli::testing
