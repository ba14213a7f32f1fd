// What a user gets wrong: one clear message, a non-zero exit code, and no output file.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

class BadInput : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("axpy.kiln", kAxpy);
    write_floats("x.npy", {1, 2, 3, 4, 5, 6});
  }
  // Runs axpy with good arguments, but for those given here, which replace them by name.
  std::vector<std::string> axpy(const std::vector<std::string>& changes, const std::string& target = "interp") const {
    std::vector<std::string> arguments = {"x=@x.npy", "y=@x.npy", "z=@z.npy:f32[6]", "n=6", "a=1"};
    std::vector<std::string> words = {"run", "axpy.kiln", "--target", target};
    for (const std::string& change : changes) {
      std::erase_if(arguments,
                    [&](const std::string& argument) { return argument[0] == change[0] && argument[1] == '='; });
      if (change.size() > 2 || change[0] == '-') words.push_back(change);
    }
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  void expect_refused(const std::vector<std::string>& changes, const std::string& text) const {
    expect_error(axpy(changes), text);
    EXPECT_FALSE(exists("z.npy"));
  }
};

TEST_F(BadInput, TheGoodCommandWorks) {
  const Outcome outcome = kiln(axpy({}));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
}

TEST_F(BadInput, MalformedText) {
  write("bad.kiln", "kernel k(%x: ptr<f32>) {\n  %y = frobnicate %x : f32\n}\n");
  expect_error({"verify", "bad.kiln"}, "bad.kiln:2:8: error:");
  expect_error({"verify", "axpy.txt"}, "axpy.txt: cannot be opened");
  write("binary.kiln", std::string("\0\xff\x7f"
                                   "ELF",
                                   6));
  expect_error({"print", "binary.kiln"}, "binary.kiln:1:1: error:");
  write("empty.kiln", "");
  expect_error({"print", "empty.kiln"}, "empty.kiln:1:1: error:");
}

TEST_F(BadInput, WrongShapesNameTheLineAndBothTypes) {
  write("shapes.kiln",
        "kernel k() {\n  %a = arange {start = 0, end = 4} : tile<[4], i32>\n  %b = arange {start = 0, end = 5} : "
        "tile<[5], i32>\n"
        "  %c = add %a, %b : tile<[4], i32>\n}\n");
  expect_error({"verify", "shapes.kiln"}, "shapes.kiln:4:8: error: add: operands have different shapes");
  expect_error({"verify", "shapes.kiln"}, "tile<[4], i32>, tile<[5], i32>");
}

TEST_F(BadInput, RequireThatFails) {
  expect_refused({"--set=BLOCK=3"}, "BLOCK must be even");
  expect_refused({"--set=BLOCK=3"}, "axpy.kiln:5:3");
  expect_error({"compile", "axpy.kiln", "--set", "BLOCK=3", "-o", "axpy.so"}, "BLOCK must be even");
  EXPECT_FALSE(exists("axpy.so"));
}

TEST_F(BadInput, UnknownTarget) {
  expect_error(axpy({}, "abacus"), "unknown target `abacus`");
  expect_error({"compile", "axpy.kiln", "--target", "abacus", "-o", "axpy.so"}, "unknown target `abacus`");
  EXPECT_FALSE(exists("axpy.so") || exists("z.npy"));
}

TEST_F(BadInput, Grid) {
  expect_refused({"--grid=-1"}, "--grid -1: grid axis 0 is -1");
  expect_refused({"--grid=1,70000"}, "grid axis 1 is 70000; it must be 0 to 65535");
  expect_refused({"--grid=1,2,3,4"}, "at most three extents");
  expect_refused({"--grid=two"}, "`two` is not an integer");
  expect_refused({"n=-1"}, "with n = -1");
}

TEST_F(BadInput, ConstexprsAndFacts) {
  expect_refused({"--set=BLCK=4"}, "has no constexpr `BLCK`; it has BLOCK");
  expect_refused({"--set=num_warps=3"}, "schedule option `num_warps` is 3; it must be 1, 2, 4, 8, 16 or 32");
  expect_refused({"--set=num_stages=0"}, "schedule option `num_stages` is 0; it must be 1 to 8");
  expect_refused({"--set=warp_specialise=fast"}, "`fast` is not an integer");
  expect_refused({"--set=warp_specialise=queue,warp_specialise=3"}, "warp_specialise=3: stated twice");
  expect_refused({"--set=BLOCK"}, "write NAME=VALUE");
  expect_refused({"--set=BLOCK=many"}, "`many` is not an integer");
  expect_refused({"--set=BLOCK=4,BLOCK=8"}, "stated twice");
  expect_refused({"--facts=q=align16"}, "has no parameter `q`");
  expect_refused({"--facts=n=align16"}, "`n` is i32; write align16 for a pointer, x8, x16 or one for an int");
  expect_refused({"--facts=n=x16"}, "`n` is 6, which is not a multiple of 16");
}

TEST_F(BadInput, ArgumentsOfTheWrongTypeMissingOrUnknown) {
  expect_refused({"n=six"}, "n=six: `six` is not a value of i32");
  expect_refused({"n=3000000000"}, "is not a value of i32");
  expect_refused({"n=1.5"}, "is not a value of i32");
  expect_refused({"a=@x.npy"}, "`a` is f32; write its value");
  expect_refused({"x=1"}, "`x` is ptr<f32>; write @FILE.npy");
  expect_refused({"x=", "n="}, "missing arguments: x (ptr<f32>), n (i32)");
  expect_refused({"--", "q=1"}, "has no parameter `q`; it has x, y, z, n, a");
  expect_refused({"--", "BLOCK=4"}, "it is a constexpr: use --set BLOCK=4");
  expect_refused({"--", "nonsense"}, "write NAME=VALUE");
  expect_error({"run", "axpy.kiln", "--target", "interp", "n=1", "n=2"}, "`n` is given twice");
}

TEST_F(BadInput, AGpuWithoutADriver) {
  ::setenv("KILN_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
  expect_error(axpy({}, "cuda"), "no CUDA driver (/nowhere/libcuda.so: ");
  ::unsetenv("KILN_CUDA_DRIVER");
}

TEST_F(BadInput, FilesThatAreNotNpyOrHoldAnotherType) {
  expect_refused({"x=@axpy.kiln"}, "axpy.kiln: not a .npy file");
  expect_refused({"x=@missing.npy"}, "missing.npy: cannot be opened");
  expect_refused({"x=@."}, ".: not a regular file");
  auto ints = client::NpyArray::make({6}, dsl::ElementType::kI32);
  ASSERT_TRUE(ints.ok() && client::write_npy(path("ints.npy"), *ints).ok());
  expect_refused({"x=@ints.npy"}, "the file holds '<i4', but `x` points to f32 ('<f4')");
  expect_refused({"z=@z.npy:f64[6]"}, "the parameter points to f32, not f64");
  expect_refused({"z=@z.npy:f32[6"}, "write a shape as [4096,1024]");
  expect_refused({"z=@z.npy:f32[-1]"}, "`-1` is not an extent");
  expect_refused({"z=@z.npy:f32[4000000000,4000000000,4]"}, "is too large");
}

TEST_F(BadInput, ShapesThatDisagree) {
  const std::string whole = read("x.npy");
  write("short.npy", whole.substr(0, whole.size() - 4));
  expect_refused({"x=@short.npy"}, "the shape [6] of <f4 disagrees with the 20 bytes of data");
  write("long.npy", whole + "more");
  expect_refused({"x=@long.npy"}, "disagrees with the 28 bytes of data");
  // A kernel that reads beyond an array is told so, with line and program.
  expect_refused({"n=9", "z=@z.npy:f32[9]"},
                 "axpy.kiln:16:3: error: load: index 6 is outside `x`, which has 6 elements");
}

TEST_F(BadInput, OutputsThatCannotBeWritten) {
  expect_refused({"z=@nowhere/z.npy:f32[6]"}, "nowhere/z.npy: cannot be written");
  expect_refused({"z=@.:f32[6]"}, ".: cannot be written");
  expect_refused({"x=@x.npy>@z.npy"}, "the kernel never writes through `x`");
  expect_refused({"z=@x.npy>@"}, "the output file has no name");
  expect_error({"compile", "axpy.kiln", "--emit", "ir", "-o", "nowhere/axpy.ir"}, "nowhere/axpy.ir: cannot be written");
}

TEST_F(BadInput, AFailedRunLeavesTheOldOutput) {
  write("z.npy", "precious");
  expect_error(axpy({"n=9", "z=@z.npy:f32[9]"}), "load: index 6");
  EXPECT_EQ(read("z.npy"), "precious");
}

TEST_F(BadInput, CommandsAndFlags) {
  expect_error({}, "subcommand");
  expect_error({"frobnicate"}, "");
  expect_error({"compile", "axpy.kiln", "--emit", "wasm", "-o", "axpy.wasm"}, "--emit");
  expect_error({"compile", "axpy.kiln"}, "--output");
  expect_error({"compile", "axpy.kiln", "-o", "-"}, "`so` is not text");
}

TEST_F(BadInput, NoDaemon) {
  for (const char* command : {"ping", "stats", "stop"}) {
    const Outcome outcome = kiln({command});
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_TRUE(outcome.errors.starts_with("kiln: ")) << outcome.errors;
  }
  expect_error({"compile", "axpy.kiln", "-o", "axpy.so"}, "kilnd");
  EXPECT_FALSE(exists("axpy.so") || exists("axpy.h"));
}

}  // namespace
}  // namespace kiln::cli::testing
