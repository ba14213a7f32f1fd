// What tests of the tuner behind a daemon share: the daemon and the tuner as built, and a runner without a device
// (fake_runner.cpp).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch_helpers.h"
#include "figures.h"
#include "how_long_kernel.h"
#include "kiln/autotune/tune.h"
#include "kiln/client/client.h"
#include "kiln/dsl/text.h"
#include "patience.h"
#include "waiting.h"

namespace kiln::autotune {

using namespace std::chrono_literals;

// Stores the time that its config takes on the fake runner.
inline const std::string kSaysHowLong = says_how_long_text({"us = [40, 70, 100, 150, 220, 330, 500, 750]"});

class OnlineCase : public ::testing::Test {
 protected:
  OnlineCase() {
    for (const auto& [name, file] : {std::pair("KILN_CACHE_DIR", "cache"),
                                     {"XDG_DATA_HOME", "data"},
                                     {"KILN_FAKE_RUNNER_LOG", "log"},
                                     {"KILN_FAKE_RUNNER_COUNT", "count"},
                                     {"KILN_FAKE_RUNNER_KERNELS", "kernels"}}) {
      set(name, file_of(file));
    }
    set("KILN_RUNNER", FAKE_RUNNER);
  }
  ~OnlineCase() override {
    stop_daemon();
    for (const std::string& name : variables_) ::unsetenv(name.c_str());
  }

  // Before the daemon starts, whose environment is the tuner's.
  void set(const std::string& name, const std::string& value) {
    variables_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::string file_of(const std::string& name) const { return directory_.file(name); }
  std::string database() const { return file_of("data/kiln/tune.sqlite"); }
  ClientOptions options() const {
    ClientOptions out;
    out.connect.runtime_dir = file_of("run");
    out.connect.kilnd_path = KILND_EXECUTABLE;
    out.connect.daemon_args = daemon_args_;
    out.connect.start_timeout = test::kPatience;
    return out;
  }
  std::unique_ptr<client::Connection> connect() const { return expect_ok(client::Connection::open(options().connect)); }
  nlohmann::json stats() const { return test::figures_of(*connect()); }
  void stop_daemon() const {
    client::ConnectOptions running = options().connect;
    running.autostart = running.allow_pipe = false;
    if (auto daemon = client::Connection::open(running)) (void)(*daemon)->shutdown();
  }
  size_t lines(const std::string& name) const {
    const std::string text = read_text(file_of(name));
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  size_t launches() const { return lines("log"); }

  std::vector<std::string> daemon_args_;

 private:
  ScratchDirectory directory_;
  std::vector<std::string> variables_;
};

inline dsl::Kernel says_how_long() { return expect_ok(dsl::parse(kSaysHowLong, "says_how_long")); }

inline Result<UntypedFunction> get(Client& client, Mode mode, uint32_t budget_ms = 0) {
  return client.get(says_how_long(), {.mode = mode, .tune_budget_ms = budget_ms});
}

// What a launch with n stores, or -1.
inline float launched(const UntypedFunction& function, int32_t n) {
  std::vector<float> x(static_cast<size_t>(n), -1);
  const std::array arguments = {client::to_argument(x.data()), client::to_argument(n)};
  const auto done = function.launch(arguments);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return x[0];
}

// The same by a client of its own that waits for the tuner.
inline float tuned(const ClientOptions& options, int32_t n, uint32_t budget_ms = 0) {
  Client client(options);
  auto function = get(client, Mode::kMax, budget_ms);
  EXPECT_TRUE(function.ok()) << function.error().message;
  return function ? launched(*function, n) : -1;
}

inline Result<void> prepared(const UntypedFunction& function, int32_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  const std::array arguments = {client::to_argument(x.data()), client::to_argument(n)};
  return function.prepare(arguments);
}

}  // namespace kiln::autotune
