// The estimate of registers beside what NVIDIA's assembler made of configs of the library (bench-registers): in a file,
// and, where there is an assembler, of some of them now.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "batch_helpers.h"
#include "kiln/autotune/jobs.h"
#include "kiln/autotune/predict.h"
#include "patience.h"
#include "search/tune_entries.h"

namespace kiln::autotune {
namespace {

struct Recorded {
  std::string kernel, type;
  Config config;
  int64_t spill_bytes = 0;

  std::string name() const { return kernel + " " + type + " " + to_string(config); }
};

std::vector<Recorded> recorded() {
  std::ifstream file(KILN_SOURCE_DIR "/tests/autotune/registers.jsonl");
  std::vector<Recorded> out;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    out.push_back({row["kernel"], row["type"], expect_ok(parse_config(row["config"])), row["spill_bytes"]});
  }
  return out;
}

// As bench-registers has them.
nlohmann::json sizes_of(const dsl::Kernel& kernel) {
  nlohmann::json out = nlohmann::json::object();
  for (const dsl::Param& param : kernel.params) {
    if (param.type.pointer) continue;
    if (dsl::is_float(param.type.element))
      out[param.name] = 0.5;
    else
      out[param.name] = param.type.element == dsl::ElementType::kI1 ? 1 : 2048;
  }
  return out;
}

Job job_of(const Recorded& one) {
  dsl::Kernel kernel = expect_ok(library_kernel(one.kernel, one.type));
  Workload workload = expect_ok(make_workload(kernel, sizes_of(kernel)));
  return {one.name(), std::move(kernel), std::move(workload), "cuda:sm_90a", {}};
}

Fit estimate(const Recorded& one) {
  const Job job = job_of(one);
  CountedWork counted(job);
  return registers_fit(*sheet_machine("cuda:sm_90a", ""), expect_ok(counted.of(one.config)), one.config);
}

TEST(Registers, NothingThatSpillsIsSaidToFitAndNothingThatFitsToSpill) {
  size_t fits = 0, spills = 0, sound = 0, spilled = 0;
  for (const Recorded& one : recorded()) {
    const Fit said = estimate(one);
    (one.spill_bytes > 0 ? spilled : sound) += 1;
    fits += said == Fit::kFits ? 1 : 0;
    spills += said == Fit::kSpills ? 1 : 0;
    EXPECT_FALSE(said == Fit::kFits && one.spill_bytes > 0) << one.name() << " spills " << one.spill_bytes;
    EXPECT_FALSE(said == Fit::kSpills && one.spill_bytes == 0) << one.name();
  }
  std::printf("[ FIGURE ] %zu of %zu that fit are said to, %zu of %zu that spill\n", fits, sound, spills, spilled);
  EXPECT_GE(sound + spilled, 500u);
  EXPECT_GE(2 * fits, sound);
  EXPECT_GE(10 * spills, spilled);
}

// The file is as old as it is; the assembler that is here may say something else.
TEST(Registers, TheAssemblerThatIsHereAgrees) {
  if (::access("/usr/local/cuda/bin/ptxas", X_OK) != 0 && std::system("command -v ptxas > /dev/null") != 0)
    GTEST_SKIP() << "there is no ptxas";
  ScratchDirectory directory;
  client::ConnectOptions options;
  options.runtime_dir = directory.file("run");
  options.kilnd_path = KILND_EXECUTABLE;
  options.start_timeout = test::kPatience;
  ::setenv("KILN_CACHE_DIR", directory.file("cache").c_str(), 1);
  {
    const auto compiler = expect_ok(daemon_compiler(options));
    const std::vector<Recorded> all = recorded();
    for (size_t i = 0; i < all.size(); i += all.size() / 8) {
      const Fit said = estimate(all[i]);
      if (said == Fit::kUnknown) continue;
      const Job job = job_of(all[i]);
      const auto made =
          compiler->compile(job.kernel, job.target, all[i].config, facts_of(job.kernel, job.workload)).get();
      ASSERT_TRUE(made.ok()) << all[i].name() << ": " << made.error().message;
      const int64_t spilled = made->metadata.device->spill_bytes.value_or(0);
      EXPECT_EQ(said == Fit::kSpills, spilled > 0) << all[i].name() << " spills " << spilled;
    }
  }
  if (auto daemon = client::Connection::open(options)) (void)(*daemon)->shutdown();
  ::unsetenv("KILN_CACHE_DIR");
}

}  // namespace
}  // namespace kiln::autotune
