// Compiled kernels in C programs: archives of several, entries of their own names, the launcher of the header.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

// The greatest of 200000 numbers, by one program: a plan of two stages.
constexpr const char* kGreatest =
    R"(kernel greatest(%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {
  %i = arange {start = 0, end = 200000}
  %s = splat %n {shape = [200000]}
  %m = cmp %i, %s {pred = lt}
  %p = splat %x {shape = [200000]}
  %q = addptr %p, %i
  %v = load %q, %m
  %t = reduce %v {kind = max, axis = 0}
  store %out, %t
})";

constexpr const char* kMain = R"(#include "kernels.h"
#include <stdio.h>

static float x[200000], y[10], z[10], eye[48 * 48], product[48 * 48];

static int check(int holds, const char* what) {
  if (!holds) fprintf(stderr, "not so: %s\n", what);
  return !holds;
}
#define CHECK(holds) wrong |= check(holds, #holds)

/* The thread's arithmetic: upward, without subnormals. What it was; what is given where that is not 0. */
static uint64_t change_floats(uint64_t to) {
  uint64_t before = 0;
#if defined(__x86_64__)
  before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(to ? (uint32_t)to : 0xdfc0);
#elif defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"(to ? to : (uint64_t)0x1400000));
#endif
  return before;
}

int main(void) {
  int wrong = 0;
  float greatest = 0;
  for (int i = 0; i < 200000; ++i) x[i] = (float)(i % 1000);
  x[123456] = 5000;
  for (int i = 0; i < 48; ++i) eye[i * 48 + i] = 2;
  axpy_params a = {x, y, z, 9, 3.0f};
  CHECK(axpy_launch(&a) == KILN_OK);
  CHECK(z[8] == 24 && z[9] == 0);
  a.n = 0;
  CHECK(axpy_launch(&a) == KILN_OK);
  a.n = -1;
  CHECK(axpy_launch(&a) == KILN_BAD_GRID);

  /* A launch's own arithmetic is not the caller's, which stays. */
  const uint32_t subnormal = 70000, third = 0x3eaaaaab;
  memcpy(&x[0], &subnormal, 4);
  memcpy(&a.a, &third, 4);
  a.n = 2;
  x[1] = 1.0f / 3;
  CHECK(axpy_launch(&a) == KILN_OK);
  float nearest[2] = {z[0], z[1]};
  z[0] = z[1] = 0;
  const uint64_t before = change_floats(0), changed = change_floats(0);
  const int32_t code = axpy_launch(&a);
  const uint64_t after = change_floats(before);
  CHECK(code == KILN_OK);
  CHECK(memcmp(nearest, z, sizeof nearest) == 0);
  CHECK(nearest[0] > 0 && nearest[0] < 1e-38f);
  CHECK((after | 0x3f) == (changed | 0x3f) && (changed | 0x3f) != (before | 0x3f)); /* but for flags */
  x[0] = 0;
  x[1] = 1;
  greatest_params g = {x, &greatest, 200000};
  CHECK(greatest_launch(&g) == KILN_OK);
  CHECK(greatest == 5000);
  greatest = 0;
  g.n = 200001;
  CHECK(greatest_launch(&g) == KILN_UNMET_CONDITION);
  CHECK(greatest == 0);
  matmul_f32_params m = {x, eye, product, 48, 48, 48};
  CHECK(matmul_f32_launch(&m) == KILN_OK);
  CHECK(product[5 * 48 + 7] == 2 * x[5 * 48 + 7]);

  /* Too little scratch memory is an error, and nothing is touched. */
  CHECK(matmul_f32_scratch_bytes > 0);
  uint32_t grid[3];
  CHECK(matmul_f32_grid(&m, grid) == KILN_OK);
  kiln_ctx ctx;
  memset(&ctx, 0, sizeof ctx);
  ctx.size = sizeof ctx;
  ctx.scratch_bytes = matmul_f32_scratch_bytes - 1;
  CHECK(matmul_f32_entry(&m, grid, 0, 1, &ctx) == KILN_SCRATCH_TOO_SMALL);
  return wrong;
}
)";

std::string with_condition(std::string kernel, const std::string& condition) {
  return kernel.insert(kernel.find('{') + 1, "\n  " + condition);
}

class Programs : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("axpy.kiln", kAxpy);
    write("greatest.kiln", kGreatest);
  }
  void TearDown() override {
    (void)kiln({"stop"});
    CliTest::TearDown();
  }
  // What a shell says to a command in the test's directory.
  int shell(const std::string& command) const { return std::system(("cd '" + path("") + "' && " + command).c_str()); }
};

TEST_F(Programs, HoldSeveralKernelsOfAnArchive) {
  ASSERT_EQ(kiln({"export-library", "library"}).code, 0);
  write("greatest.kiln", with_condition(kGreatest, "where le(n, 200000), \"no more than a tile\""));
  const Outcome outcome = kiln({"compile", "axpy.kiln", "greatest.kiln", "library/matmul_f32.kiln", "--set",
                                "BLOCK=8,BM=16,BN=16,BK=16", "-o", "kernels.a"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  write("main.c", kMain);
  const std::string flags = " -std=c11 -Wall -Wextra -Werror main.c kernels.a -o main";
  ASSERT_EQ(shell(KILN_C_COMPILER + flags), 0) << read("kernels.h");
  EXPECT_EQ(shell("./main"), 0);
  ASSERT_EQ(shell(std::string(KILN_C_COMPILER) + " -fopenmp" + flags), 0);
  EXPECT_EQ(shell("OMP_NUM_THREADS=3 ./main"), 0);
  // The header is C++ too.
  EXPECT_EQ(shell(std::string(KILN_CXX_COMPILER) + " -std=c++20 -Wall -Wextra -Werror -fsyntax-only -x c++ kernels.h"),
            0);
}

TEST_F(Programs, NameTheirEntries) {
  for (const char* emit : {"so", "obj"}) {
    const std::string file = emit == std::string("so") ? "axpy.so" : "axpy.o";
    const Outcome outcome = kiln({"compile", "axpy.kiln", "--emit", emit, "--entry", "my_axpy", "-o", file});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(read("axpy.h").find("int32_t my_axpy(const void* params"), std::string::npos) << read("axpy.h");
    EXPECT_NE(read(file).find("my_axpy"), std::string::npos);
    EXPECT_EQ(read(file).find("kiln_entry"), std::string::npos);
  }
  // Objects of several kernels are one program.
  ASSERT_EQ(kiln({"compile", "greatest.kiln", "--emit", "obj", "--entry", "my_greatest", "-o", "greatest.o"}).code, 0);
  write("two.c", R"(#include "axpy.h"
#include "greatest.h"
static float x[200000], z[4];
int main(void) {
  float greatest = 0;
  x[3] = 7;
  axpy_params a = {x, x, z, 4, 2.0f};
  greatest_params g = {x, &greatest, 200000};
  return axpy_launch(&a) != KILN_OK || greatest_launch(&g) != KILN_OK || z[3] != 21 || greatest != 7;
})");
  ASSERT_EQ(shell(std::string(KILN_C_COMPILER) + " -std=c11 -Wall -Wextra -Werror two.c axpy.o greatest.o -o two"), 0);
  EXPECT_EQ(shell("./two"), 0);
}

TEST_F(Programs, AreRefusedWhatNamesNothing) {
  expect_error({"compile", "axpy.kiln", "--entry", "2x", "-o", "axpy.so"}, "`2x` cannot be the name of an entry");
  expect_error({"compile", "axpy.kiln", "--entry", "x", "--emit", "asm", "-o", "axpy.s"}, "--entry is for");
  expect_error({"compile", "axpy.kiln", "greatest.kiln", "-o", "both.so"}, "say -o NAME.a");
  expect_error({"compile", "axpy.kiln", "axpy.kiln", "-o", "both.a"}, "a second kernel with the name `axpy`");
  expect_error({"compile", "axpy.kiln", "greatest.kiln", "--set", "BN=4", "-o", "both.a"}, "none of the kernels has");
  EXPECT_FALSE(exists("both.a") || exists("both.h") || exists("axpy.so"));
}

// What is timed comes after the outputs, which are those of one launch.
TEST_F(Programs, AreTimedFromTheShell) {
  write_floats("x.npy", {1, 2, 3, 4});
  for (const char* target : {"interp", "cpu"}) {
    const Outcome outcome = kiln({"run", "axpy.kiln", "--repeat", "20", "--target", target, "x=@x.npy", "y=@x.npy",
                                  "z=@x.npy>@z.npy", "n=4", "a=2"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("axpy: median "), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find(" of 20 launches\n"), std::string::npos) << outcome.output;
    EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{3, 6, 9, 12}));
  }
  EXPECT_EQ(
      kiln({"run", "axpy.kiln", "--target", "interp", "x=@x.npy", "y=@x.npy", "z=@z.npy:f32[4]", "n=4", "a=1"}).output,
      "");
}

}  // namespace
}  // namespace kiln::cli::testing
