// The defaults of the project's job lists: every job's is a valid config for CPUs and GPUs, and compiles.
#include "kiln/autotune/jobs.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "runner_case.h"

namespace kiln::autotune {
namespace {

std::vector<JobSpec> jobs_of(const std::string& file) {
  auto jobs = read_jobs(std::string(KILN_SOURCE_DIR) + "/autotune/jobs/" + file + ".jsonl");
  EXPECT_TRUE(jobs) << jobs.error().message;
  return jobs ? *jobs : std::vector<JobSpec>();
}

std::vector<JobSpec> all_jobs() {
  std::vector<JobSpec> out;
  for (const char* file : {"llama3_8b", "bert_base", "resnet50", "dlrm", "datacenter_gpu", "quickstart"}) {
    for (JobSpec& job : jobs_of(file)) out.push_back(std::move(job));
  }
  return out;
}

using JobDefaults = RunnerCase;

TEST_F(JobDefaults, AreValidForEveryJob) {
  for (const JobSpec& job : all_jobs()) {
    for (const char* target : {"cpu:x86-64-v3", "cuda:sm_90a"}) {
      auto config = dsl::complete_constexprs(job.kernel, job.workload.fixed, target);
      ASSERT_TRUE(config) << job.place << " " << target << ": " << config.error().message;
      std::erase_if(*config, [](const auto& item) { return dsl::is_schedule_option(item.first); });
      const auto made = dsl::instantiate(job.kernel, *config, facts_of(job.kernel, job.workload));
      EXPECT_TRUE(made) << job.place << " " << target << ": " << made.error().message;
    }
  }
}

// KILN_AUTOTUNE_FULL=1: all of them, for GPUs too.
TEST_F(JobDefaults, Compile) {
  const bool all = std::getenv("KILN_AUTOTUNE_FULL") != nullptr;
  TestCompiler compiler(path("run"));
  std::vector<std::pair<std::string, std::future<Result<Artifact>>>> compiling;
  for (const JobSpec& job : all ? all_jobs() : jobs_of("quickstart")) {
    for (const char* target : {"cpu", "cuda:sm_90a"}) {
      if (!all && target != std::string("cpu")) continue;
      compiling.emplace_back(job.place + " " + target, compiler->compile(job.kernel, target, job.workload.fixed,
                                                                         facts_of(job.kernel, job.workload)));
    }
  }
  EXPECT_GE(compiling.size(), 4u);
  for (auto& [what, flight] : compiling) {
    const auto artifact = flight.get();
    EXPECT_TRUE(artifact) << what << ": " << artifact.error().message;
  }
}

}  // namespace
}  // namespace kiln::autotune
