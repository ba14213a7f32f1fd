// The tuner on this machine: for each case every config is measured, then the search runs twice with its usual share.
// The winners are launched once more in turn, so that their times are of the same minute. Arguments: parts of the names
// of the cases to run; none: all.
//
//   case                     share  ratio   agree  rank   configs
//   matmul f32 512            0.25  1.004  0.001   0.81        80
//
// share: configs that the search measured, of the space. ratio: time of its choice by that of the best of all. agree:
// by how much the choices of two searches of different seeds differ in time. rank: correlation of model and times.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "kiln/autotune/tune.h"
#include "kiln/dsl/kernels.h"

namespace {

using namespace kiln;
using namespace kiln::autotune;
using nlohmann::json;

struct Case {
  std::string name;
  const Result<dsl::Kernel>* kernel;
  json scalars;
  std::vector<dsl::SpaceAxis> axes = {};
};

json product(int m, int n, int k) { return {{"M", m}, {"N", n}, {"K", k}}; }
json rows(int many, int cols) { return {{"rows", many}, {"cols", cols}}; }

std::vector<Case> cases() {
  using lang::bf16, lang::f32;
  const std::vector<dsl::SpaceAxis> tiles = {{"BM", {32, 64, 128, 256}}, {"BN", {32, 64, 128, 256}}, {"BK", {64, 256}}};
  const json attention = {{"batch", 1}, {"heads", 4}, {"kv_heads", 4}, {"seq", 512}, {"scale", 0.125}};
  return {
      {"matmul f32 384", &kernels::matmul<f32>().ir(), product(384, 384, 384)},
      {"matmul f32 64x1024x512", &kernels::matmul<f32>().ir(), product(64, 1024, 512), tiles},
      {"matmul bf16 512", &kernels::matmul<bf16>().ir(), product(512, 512, 512), tiles},
      {"matmul bf16 1000x200x300", &kernels::matmul<bf16>().ir(), product(1000, 200, 300), tiles},
      {"matmul_bias_relu f32 256", &kernels::matmul_bias_relu<f32>().ir(), product(256, 256, 256), tiles},
      {"attention f32 512", &kernels::attention<f32>().ir(), attention},
      {"column_sum 4096x512", &kernels::column_sum<f32>().ir(), rows(4096, 512)},
      {"column_sum 512x8192", &kernels::column_sum<f32>().ir(), rows(512, 8192)},
      {"cumsum_columns 2048x1024", &kernels::cumsum_columns<f32>().ir(), rows(2048, 1024)},
      {"cumsum_columns 256x4096", &kernels::cumsum_columns<f32>().ir(), rows(256, 4096)},
      {"bias_gelu 1024x1024", &kernels::bias_gelu<f32>().ir(), rows(1024, 1024)},
      {"bias_gelu 128x5000", &kernels::bias_gelu<f32>().ir(), rows(128, 5000)},
      {"mlp_softshrink 256", &kernels::mlp_softshrink<f32>().ir(), {{"rows", 256}, {"lambda", 0.5}}},
  };
}

template <class T>
T checked(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "bench-autotune: %s\n", result.error().message.c_str());
  std::exit(1);
}

double middle(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nan("");
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench() : compiler_(checked(daemon_compiler({}))), runner_(checked(start_runner({}))) {
    directory_ = std::filesystem::temp_directory_path() / ("bench-autotune-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    machine_ = checked(calibrate(*compiler_, *runner_, *records("machine")));
    std::printf("%s\n%-26s %6s %6s %6s %6s %8s\n", to_json(machine_).dump().c_str(), "case", "share", "ratio", "agree",
                "rank", "configs");
  }
  ~Bench() { std::filesystem::remove_all(directory_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void run(const Case& one) {
    const dsl::Kernel kernel = checked(*one.kernel);
    const Job job{one.name, kernel, checked(make_workload(kernel, one.scalars)), machine_.target, one.axes};
    const JobResult all = search(job, {.search = Search::kExhaustive});
    const JobResult first = search(job, {.seed = 1}), second = search(job, {.seed = 2});
    const std::vector<double> us = interleaved(job, {all.best, first.best, second.best});
    std::printf("%-26s %6.2f %6.3f %6.3f %6.2f %8zu   %s | %s | %s\n", one.name.c_str(),
                static_cast<double>(first.measured) / static_cast<double>(all.measured), us[1] / us[0],
                std::abs(us[1] / us[2] - 1), all.correlation, all.space, to_string(all.best).c_str(),
                to_string(first.best).c_str(), to_string(second.best).c_str());
    std::fflush(stdout);
  }

 private:
  std::unique_ptr<Records> records(const std::string& name) {
    return checked(Records::open((directory_ / (name + ".sqlite")).string()));
  }

  // With records of its own, so that none has another's measurements.
  JobResult search(const Job& job, const TuneOptions& options) {
    return checked(tune(job, *compiler_, *runner_, *records(std::to_string(++searches_)), machine_, options));
  }

  std::vector<double> interleaved(const Job& job, const std::vector<Config>& configs) {
    constexpr int kRounds = 51;
    if (auto begun = runner_->begin(job.kernel, job.workload, Cache::kCold); !begun) checked<int>(begun.error());
    std::vector<CandidateId> ids;
    for (const Config& config : configs) {
      const auto id = static_cast<CandidateId>(ids.size());
      const Artifact artifact =
          checked(compiler_->compile(job.kernel, job.target, config, facts_of(job.kernel, job.workload)).get());
      checked(runner_->load(id, config, artifact, Seconds(10)));
      ids.push_back(id);
    }
    const Runner::Measured measured = checked(runner_->measure(ids, kRounds, Seconds(60)));
    std::vector<std::vector<double>> us(ids.size());
    for (const Round& round : measured.rounds) {
      for (size_t i = 0; i < ids.size(); ++i) us[i].push_back(round.us[i]);
    }
    std::vector<double> out;
    for (const std::vector<double>& times : us) out.push_back(middle(times));
    return out;
  }

  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Runner> runner_;
  std::filesystem::path directory_;
  Machine machine_;
  int searches_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  for (const Case& one : cases()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted |= one.name.find(argv[i]) != std::string::npos;
    if (wanted) bench.run(one);
  }
}
