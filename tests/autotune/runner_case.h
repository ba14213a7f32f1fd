// What the runner's tests share: directories of their own, workloads by the kernel's `array` lines, a daemon.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "kiln/autotune/compiler.h"
#include "kiln/autotune/runner.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/text.h"
#include "patience.h"
#include "scratch.h"

namespace kiln::autotune {

class RunnerCase : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-tuner-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    set("KILN_RUNTIME_DIR", path("run"));
    set("KILN_CACHE_DIR", path("cache"));
    set("XDG_DATA_HOME", path("data"));
    set("KILN_FAKE_RUNNER_LOG", path("log"));
    set("KILN_FAKE_RUNNER_COUNT", path("count"));
  }
  void TearDown() override {
    for (const std::string& name : variables_) ::unsetenv(name.c_str());
    test::remove_scratch(directory_);
  }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  void set(const std::string& name, const std::string& value) {
    variables_.insert(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<std::string> lines(const std::string& name) const {
    std::ifstream file(path(name));
    std::vector<std::string> out;
    for (std::string line; std::getline(file, line);) out.push_back(line);
    return out;
  }

 private:
  std::filesystem::path directory_;
  std::set<std::string> variables_;
};

inline dsl::Kernel parsed(const std::string& text) {
  auto kernel = dsl::parse(text, "test.kiln");
  if (!kernel) ADD_FAILURE() << kernel.error().message;
  return kernel ? *kernel : dsl::Kernel();
}

// Sizes as the kernel's `array` lines say, with the constexprs' defaults.
inline Workload workload_by(const dsl::Kernel& kernel, const std::map<std::string, double>& scalars) {
  Workload out;
  dsl::Bindings bindings;
  for (const dsl::Constexpr& constant : kernel.constexprs) bindings.constexprs.push_back(constant.default_value);
  for (const dsl::Param& param : kernel.params) {
    WorkloadArgument argument;
    bindings.params.emplace_back();
    if (!param.type.pointer) {
      const double value = scalars.at(param.name);
      argument.bits = dsl::bits_from_double(param.type.element, value);
      bindings.params.back() = static_cast<int64_t>(value);
    }
    out.arguments.push_back(argument);
  }
  for (const dsl::ArrayInfo& array : kernel.arrays) {
    WorkloadArgument& argument = out.arguments[*kernel.find_param(array.param)];
    argument.elements = array.elements.evaluate(bindings).value();
    if (!array.range) continue;
    argument.range = {array.range->first.evaluate(bindings).value(), array.range->second.evaluate(bindings).value()};
  }
  return out;
}

// Compiles by a daemon in the test's directories, which ends with this.
class TestCompiler {
 public:
  explicit TestCompiler(const std::string& runtime_dir) {
    options_.runtime_dir = runtime_dir;
    options_.kilnd_path = KILND_EXECUTABLE;
    options_.start_timeout = test::kPatience;
    auto compiler = daemon_compiler(options_);
    if (!compiler) ADD_FAILURE() << compiler.error().message;
    if (compiler) compiler_ = std::move(*compiler);
  }
  ~TestCompiler() {
    compiler_.reset();
    if (auto daemon = client::Connection::open(options_)) (void)(*daemon)->shutdown();
  }
  TestCompiler(const TestCompiler&) = delete;
  TestCompiler& operator=(const TestCompiler&) = delete;

  Compiler* operator->() const { return compiler_.get(); }
  Artifact compile(const dsl::Kernel& kernel, const Config& config) const {
    auto artifact = compiler_->compile(kernel, "cpu", config, {}).get();
    if (!artifact) ADD_FAILURE() << artifact.error().message;
    return artifact ? *artifact : Artifact();
  }
  // For the fake of the CUDA driver, which looks into the text.
  Artifact compile_ptx(const dsl::Kernel& kernel, const Config& config) const {
    auto values = dsl::complete_constexprs(kernel, config, "cuda:sm_90a");
    auto request = dsl::encode_request({kernel, "cuda:sm_90a", *values, {}, "ptx"});
    auto daemon = client::Connection::open(options_);
    if (!request || !daemon) ADD_FAILURE() << (request ? daemon.error() : request.error()).message;
    auto artifact = (*daemon)->fetch(*request);
    if (!artifact) ADD_FAILURE() << artifact.error().message;
    return artifact ? *artifact : Artifact();
  }

 private:
  client::ConnectOptions options_;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace kiln::autotune
