// Tests of graphs with a daemon of each test's own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "figures.h"
#include "kiln/client/graph.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "patience.h"
#include "scratch.h"

namespace kiln::test {

class GraphService : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-graph-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    ::setenv("KILN_CACHE_DIR", (directory_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    stop_daemon();
    remove_scratch(directory_);
  }
  ClientOptions options() const {
    ClientOptions out;
    out.connect.runtime_dir = (directory_ / "run").string();
    const char* elsewhere = std::getenv("KILN_TEST_KILND");  // of a packed suite
    out.connect.kilnd_path = elsewhere ? elsewhere : KILND_EXECUTABLE;
    out.connect.start_timeout = kPatience;
    out.specialise_in_background = false;
    return out;
  }
  std::unique_ptr<client::Connection> daemon() const {
    auto opened = client::Connection::open(options().connect);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  void stop_daemon() const {
    if (auto opened = client::Connection::open(options().connect)) (void)(*opened)->shutdown();
  }
  uint64_t compiles() const { return figures_of(*daemon()).at("compiles_total").get<uint64_t>(); }

  // Where the daemon keeps what a kernel of the plan was compiled to.
  std::vector<std::filesystem::path> entries_of(const graph::Plan& plan) const {
    std::vector<std::filesystem::path> out;
    const std::vector<dsl::Facts> facts = graph::facts_of(plan);
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      const graph::PlannedKernel& kernel = plan.kernels[i];
      auto values = dsl::complete_constexprs(kernel.kernel, kernel.constexprs, plan.target);
      auto request = kernel.encoded.empty() ? dsl::encode_request({kernel.kernel, plan.target, *values, facts[i]})
                                            : requests_of(kernel).encode(plan.target, *values, facts[i]);
      const std::string key = to_hex(daemon()->key_of(*request)), name = key.substr(2);
      for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / "cache")) {
        if (entry.path().filename() == name) out.push_back(entry.path());
      }
    }
    return out;
  }

  // Of a plan that was read without its kernels' ops.
  static dsl::RequestEncoder requests_of(const graph::PlannedKernel& kernel) {
    return *dsl::RequestEncoder::of_encoded(std::make_shared<const dsl::Kernel>(kernel.kernel), kernel.encoded);
  }

  std::filesystem::path directory_;
};

}  // namespace kiln::test
