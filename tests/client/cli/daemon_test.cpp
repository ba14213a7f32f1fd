// The command line with a daemon: compiled kernels agree with the interpreter, every output can be emitted.
#include <nlohmann/json.hpp>
#include <random>

#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

// One daemon a test, stopped at its end.
class WithDaemon : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("axpy.kiln", kAxpy);
  }
  void TearDown() override {
    (void)kiln({"stop"});
    CliTest::TearDown();
  }
  nlohmann::json stats() const {
    const Outcome outcome = kiln({"stats", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output, nullptr, false);
  }
  std::vector<float> random(size_t count) const {
    std::mt19937 generator(static_cast<unsigned>(count));
    std::normal_distribution<float> normal;
    std::vector<float> out(count);
    for (float& value : out) value = normal(generator);
    return out;
  }
};

TEST_F(WithDaemon, CompiledAndInterpretedKernelsAgree) {
  write_floats("x.npy", random(1000));
  write_floats("y.npy", random(1000));
  for (const char* target : {"cpu", "interp"}) {
    const Outcome outcome = kiln({"run", "axpy.kiln", "--target", target, "--set", "BLOCK=64", "x=@x.npy", "y=@y.npy",
                                  std::string("z=@") + target + ".npy:f32[1000]", "n=999", "a=0.3"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
  }
  EXPECT_EQ(read_floats("cpu.npy"), read_floats("interp.npy"));
  // Again, and with facts: one more compile, one hit.
  const std::vector<std::string> again = {
      "run",   "axpy.kiln", "--set",   "BLOCK=64",           "x=@x.npy", "y=@y.npy", "z=@facts.npy:f32[1000]",
      "n=999", "a=0.3",     "--facts", "x=align16,y=align16"};
  const Outcome outcome = kiln(again);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_floats("facts.npy"), read_floats("interp.npy"));
  const nlohmann::json values = stats();
  EXPECT_EQ(values["compiles_total"], 2) << values;
  for (const char* name : {"hits_total", "misses_total", "workers", "rss_bytes"})
    EXPECT_TRUE(values.contains(name)) << name;
}

// Workers cannot read the file.
TEST_F(WithDaemon, WhatAWorkerRefusesIsShownWithItsLine) {
  write("sums.kiln",
        "kernel sums(%x: f32, %y: ptr<f32>) {\n  option deterministic = true\n"
        "  %old = atomic_rmw %y, %x {kind = add} : f32\n}\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "sums.kiln", "x=1", "y=@y.npy:f32[1]"},
        {"compile", "sums.kiln", "-o", "sums.so"}}) {
    const Outcome outcome = kiln(command);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.errors.find("sums.kiln:3:3: error: atomic_rmw: the option `deterministic`"), std::string::npos);
    EXPECT_NE(outcome.errors.find("\n    %old = atomic_rmw %y, %x {kind = add} : f32\n    ^\n"), std::string::npos)
        << outcome.errors;
  }
}

TEST_F(WithDaemon, MatrixProductOfTheLibrary) {
  ASSERT_EQ(kiln({"export-library", "library"}).code, 0);
  const size_t m = 37, n = 41, k = 53;
  const std::vector<float> a = random(m * k), b = random(k * n);
  write_floats("a.npy", a);
  write_floats("b.npy", b);
  const Outcome outcome = kiln({"run", "library/matmul_f32.kiln", "--set", "BM=16,BN=16,BK=16", "A=@a.npy", "B=@b.npy",
                                "C=@c.npy:f32[37,41]", "M=37", "N=41", "K=53", "--threads", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const std::vector<float> c = read_floats("c.npy");
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t p = 0; p < k; ++p) sum += double{a[i * k + p]} * b[p * n + j];
      EXPECT_NEAR(c[i * n + j], sum, 1e-4);
    }
  }
}

TEST_F(WithDaemon, EveryOutputIsEmitted) {
  for (const char* emit : {"ir", "llvm", "asm", "obj", "so", "quick"}) {
    const Outcome outcome = kiln({"compile", "axpy.kiln", "--emit", emit, "-o", std::string("axpy.") + emit});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
  }
  EXPECT_NE(read("axpy.llvm").find("define"), std::string::npos);
  EXPECT_NE(read("axpy.asm").find("kiln_entry"), std::string::npos);
  EXPECT_TRUE(read("axpy.obj")
                  .starts_with("\x7f"
                               "ELF"));
  EXPECT_TRUE(
      read("axpy.so").starts_with("\x7f"
                                  "ELF"));
  EXPECT_NE(read("axpy.h").find("axpy_params"), std::string::npos);
  EXPECT_TRUE(read("axpy.quick")
                  .starts_with("\x7f"
                               "ELF"));
  EXPECT_NE(read("axpy.quick"), read("axpy.so"));
  EXPECT_NE(read("axpy.quick.h").find("axpy_params"), std::string::npos);
}

TEST_F(WithDaemon, CpusTakeLaunchOptionsAndIgnoreThem) {
  for (const char* set : {"num_warps=8", "num_stages=2", "BLOCK=4"}) {
    const Outcome outcome = kiln({"compile", "axpy.kiln", "--set", set, "-o", "axpy.so"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
  }
  EXPECT_EQ(stats()["compiles_total"], 1);
}

// Without a GPU or NVIDIA's assembler: a script has its place. It runs beside the worker, whose sandbox has no exec,
// and is one process.
TEST_F(WithDaemon, WhatAGpuKernelLosesIsSaid) {
  write("ptxas",
        "#!/bin/sh\n"
        "echo '    32 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads'\n"
        "echo 'ptxas info    : Used 255 registers, used 1 barriers'\n"
        "echo 'ptxas info    : (C7510) Potential Performance Loss: serialized'\n"
        "exec cat /bin/true > /proc/self/fd/4\n");  // an ELF file, which is all that is asked of it
  std::filesystem::permissions(path("ptxas"), std::filesystem::perms::owner_all);
  ::setenv("KILN_PTXAS", path("ptxas").c_str(), 1);
  const Outcome outcome = kiln({"compile", "axpy.kiln", "--target", "cuda:sm_90a", "-o", "axpy.cubin"});
  ::unsetenv("KILN_PTXAS");
  if (outcome.errors.find("built without NVIDIA GPUs") != std::string::npos) GTEST_SKIP() << outcome.errors;
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(std::filesystem::file_size(path("axpy.cubin")), std::filesystem::file_size("/bin/true"));
  EXPECT_EQ(outcome.errors,
            "kiln: note: axpy for cuda:sm_90a: 255 registers a thread are too few: 36 bytes of spills\n"
            "kiln: note: axpy for cuda:sm_90a: ptxas info    : (C7510) Potential Performance Loss: serialized\n");
}

TEST_F(WithDaemon, CompilesCodeObjectsForAmd) {
  const Outcome outcome =
      kiln({"compile", "axpy.kiln", "--target", "amd:gfx942", "--emit", "hsaco", "-o", "axpy.hsaco"});
  if (outcome.errors.find("built without AMD") != std::string::npos) GTEST_SKIP() << outcome.errors;
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read("axpy.hsaco").substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(stats()["compiles_total"], 1);
  ASSERT_EQ(kiln({"compile", "axpy.kiln", "--target", "amd:gfx942", "--emit", "hsaco", "-o", "again.hsaco"}).code, 0);
  EXPECT_EQ(read("again.hsaco"), read("axpy.hsaco"));
  const nlohmann::json values = stats();
  EXPECT_EQ(values["compiles_total"], 1);
  EXPECT_EQ(values["hits_total"]["memory"], 1) << values;
  // The GPU of this machine, as its driver names it.
  ::setenv("KILN_HIP_DRIVER", FAKE_HIP, 1);
  const Outcome present = kiln({"compile", "axpy.kiln", "--target", "amd", "--emit", "hsaco", "-o", "present.hsaco"});
  ::unsetenv("KILN_HIP_DRIVER");
  EXPECT_EQ(present.code, 0) << present.errors;
  EXPECT_TRUE(exists("present.hsaco"));
  const Outcome unknown = kiln({"compile", "axpy.kiln", "--target", "amd:gfx1", "-o", "x"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.errors.find("has the name `gfx1`; the nearest are gfx906, gfx90a, "), std::string::npos)
      << unknown.errors;
}

TEST_F(WithDaemon, EmittedIrIsWhatThePassesLeave) {
  const Outcome outcome = kiln({"compile", "axpy.kiln", "--emit", "ir", "--set", "BLOCK=32", "-o", "axpy.ir"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string ir = read("axpy.ir");
  EXPECT_NE(ir.find("tile<[32], f32>"), std::string::npos) << ir;
  EXPECT_EQ(ir.find("tile<[BLOCK]"), std::string::npos) << ir;
  EXPECT_EQ(ir.find("require"), std::string::npos) << ir;
  EXPECT_EQ(kiln({"verify", "axpy.ir"}).code, 0);
}

TEST_F(WithDaemon, TextGoesToTheStandardOutput) {
  for (const char* emit : {"ir", "llvm", "asm"}) {
    const Outcome bare = kiln({"compile", "axpy.kiln", "--emit", emit});
    EXPECT_EQ(bare.code, 0) << bare.errors;
    const Outcome dash = kiln({"compile", "axpy.kiln", "--emit", emit, "-o", "-"});
    EXPECT_EQ(dash.code, 0) << dash.errors;
    ASSERT_EQ(kiln({"compile", "axpy.kiln", "--emit", emit, "-o", "file"}).code, 0);
    EXPECT_EQ(bare.output, read("file"));
    EXPECT_EQ(dash.output, read("file"));
    EXPECT_GT(bare.output.size(), 100u);
  }
  EXPECT_FALSE(exists("-"));
}

TEST_F(WithDaemon, IrIsDumpedAfterEachPass) {
  for (const char* pass : {"instantiate", "fuse_precision", "contract", "expand_descriptors", "simplify_masks", "fold",
                           "cse", "licm", "dce"}) {
    const Outcome outcome = kiln({"compile", "axpy.kiln", "--dump-after", pass});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output.find("kernel axpy("), 0u) << outcome.output;
  }
  const std::string all = kiln({"compile", "axpy.kiln", "--dump-after", "all"}).output;
  const size_t fold = all.find("// after fold\n"), cse = all.find("// after cse\n");
  EXPECT_EQ(all.find("// after instantiate\n"), 0u) << all;
  EXPECT_TRUE(fold != std::string::npos && cse != std::string::npos && fold < cse) << all;
}

TEST_F(WithDaemon, LlvmIrIsDumpedBesideAnOutput) {
  const Outcome outcome = kiln({"compile", "axpy.kiln", "--dump-after", "llvm", "-o", "axpy.so"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("define"), std::string::npos) << outcome.output;
  EXPECT_TRUE(exists("axpy.so"));
}

TEST_F(WithDaemon, UnknownPassesAreNamedWithThoseThatExist) {
  const Outcome outcome = kiln({"compile", "axpy.kiln", "--dump-after", "vectorise"});
  EXPECT_EQ(outcome.code, 1);
  for (const char* part : {"`vectorise`", "instantiate", "expand_descriptors", "dce", "all"})
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
}

#if defined(__x86_64__)
TEST_F(WithDaemon, CodeForAnotherArchitectureIsWrittenButNotLaunched) {
  ASSERT_EQ(kiln({"compile", "axpy.kiln", "--target", "cpu:aarch64", "-o", "axpy.so"}).code, 0);
  const std::string code = read("axpy.so");
  ASSERT_GT(code.size(), 20u);
  EXPECT_EQ(code[18], static_cast<char>(0xb7));  // e_machine: EM_AARCH64
  write_floats("x.npy", random(8));
  const Outcome outcome =
      kiln({"run", "axpy.kiln", "--target", "cpu:aarch64", "x=@x.npy", "y=@x.npy", "z=@z.npy:f32[8]", "n=8", "a=0.5"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.errors.find("this machine is x86_64, the kernel was compiled for aarch64"), std::string::npos)
      << outcome.errors;
}
#endif

TEST_F(WithDaemon, PingStatsStopAndTheCache) {
  ASSERT_EQ(kiln({"compile", "axpy.kiln", "-o", "axpy.so"}).code, 0);
  const Outcome ping = kiln({"ping"});
  EXPECT_EQ(ping.code, 0) << ping.errors;
  EXPECT_NE(ping.output.find("native target  cpu:"), std::string::npos) << ping.output;
  const Outcome figures = kiln({"stats", "--prometheus"});
  EXPECT_NE(figures.output.find("kiln_compiles_total 1\n"), std::string::npos) << figures.output << figures.errors;
  EXPECT_EQ(kiln({"stats", "--poison"}).output, "");
  EXPECT_EQ(kiln({"stats", "--clear-poison"}).code, 0);
  EXPECT_NE(kiln({"stats", "--json", "--prometheus"}).code, 0);
  const Outcome trace = kiln({"trace"});
  EXPECT_NE(trace.output.find("traceEvents"), std::string::npos) << trace.output << trace.errors;
  EXPECT_EQ(kiln({"stop"}).code, 0);
  EXPECT_EQ(kiln({"ping"}).code, 1);
  const Outcome list = kiln({"cache", "ls"});
  EXPECT_NE(list.output.find("axpy"), std::string::npos) << list.output << list.errors;
  EXPECT_EQ(kiln({"cache", "verify"}).output, "1 entries, 0 damaged\n");
  EXPECT_EQ(kiln({"cache", "clear"}).output, "1 entries removed\n");
}

}  // namespace
}  // namespace kiln::cli::testing
