// Runs the built `kiln` in a directory that is gone afterwards.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kiln/client/npy.h"
#include "kiln/wire/process.h"
#include "scratch.h"

namespace kiln::cli::testing {

struct Outcome {
  int code = -1;
  std::string output, errors;
};

// z[i] = a * x[i] + y[i]; one program for each 4 elements.
inline constexpr const char* kAxpy =
    R"(kernel axpy(%x: ptr<f32> readonly, %y: ptr<f32> readonly, %z: ptr<f32>, %n: i32, %a: f32) {
  constexpr BLOCK = 4
  grid [div(n + BLOCK - 1, BLOCK), 1, 1]

  require {cond = eq(rem(BLOCK, 2), 0), message = "BLOCK must be even"}
  %pid = program_id {axis = 0} : i32
  %block = constant {value = BLOCK, type = i32} : i32
  %start = mul %pid, %block : i32
  %s = splat %start {shape = [BLOCK]} : tile<[BLOCK], i32>
  %r = arange {start = 0, end = BLOCK} : tile<[BLOCK], i32>
  %i = add %s, %r : tile<[BLOCK], i32>
  %ns = splat %n {shape = [BLOCK]} : tile<[BLOCK], i32>
  %m = cmp %i, %ns {pred = lt} : tile<[BLOCK], i1>
  %xs = splat %x {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
  %xp = addptr %xs, %i : tile<[BLOCK], ptr<f32>>
  %xv = load %xp, %m : tile<[BLOCK], f32>
  %ys = splat %y {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
  %yp = addptr %ys, %i : tile<[BLOCK], ptr<f32>>
  %yv = load %yp, %m : tile<[BLOCK], f32>
  %as = splat %a {shape = [BLOCK]} : tile<[BLOCK], f32>
  %v = fma %as, %xv, %yv : tile<[BLOCK], f32>
  %zs = splat %z {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
  %zp = addptr %zs, %i : tile<[BLOCK], ptr<f32>>
  store %zp, %v, %m
}
)";

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-cli-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { test::remove_scratch(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  void write_floats(const std::string& name, const std::vector<float>& values) const {
    auto array = client::NpyArray::make({static_cast<int64_t>(values.size())}, dsl::ElementType::kF32);
    ASSERT_TRUE(array.ok());
    if (!values.empty()) std::memcpy(array->data(), values.data(), array->bytes);
    ASSERT_TRUE(client::write_npy(path(name), *array).ok());
  }
  std::vector<float> read_floats(const std::string& name) const {
    auto array = client::read_npy(path(name));
    EXPECT_TRUE(array.ok()) << array.error().message;
    if (!array) return {};
    std::vector<float> out(array->bytes / sizeof(float));
    if (!out.empty()) std::memcpy(out.data(), array->data(), array->bytes);
    return out;
  }

  // Words as the shell would pass them, run in the test's directory, which is also the daemon's; `kilnd_` is what a
  // client starts.
  Outcome kiln(const std::vector<std::string>& words) const {
    const std::string out = path("stdout.txt"), err = path("stderr.txt");
    constexpr int kWritten = O_WRONLY | O_CREAT | O_TRUNC;
    wire::Program program{
        .command = {"/usr/bin/env", "-C", directory_.string(), "KILN_RUNTIME_DIR=" + path("run"),
                    "KILN_CACHE_DIR=" + path("cache"), "KILN_KILND=" + kilnd_, KILN_EXECUTABLE},
        .descriptors = {{.number = 1, .path = out, .flags = kWritten}, {.number = 2, .path = err, .flags = kWritten}}};
    program.command.insert(program.command.end(), words.begin(), words.end());
    const auto child = wire::spawn(program);
    if (!child) return {126, "", child.error().message};
    int status = 0;
    ::waitpid(*child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read("stdout.txt"), read("stderr.txt")};
  }

  // Fails with exit code 1 and a message that contains `text`.
  void expect_error(const std::vector<std::string>& words, const std::string& text) const {
    const Outcome outcome = kiln(words);
    EXPECT_NE(outcome.code, 0) << "expected: " << text;
    EXPECT_LT(outcome.code, 126) << outcome.errors;
    EXPECT_NE(outcome.errors.find(text), std::string::npos) << "expected: " << text << "\ngot: " << outcome.errors;
  }

  std::string kilnd_ = "/nonexistent/kilnd";

 private:
  std::filesystem::path directory_;
};

}  // namespace kiln::cli::testing
