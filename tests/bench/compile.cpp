// How long a warm compiler takes for each kernel of the library, phase by phase: the median of 20 compiles in this
// process, after warm_up as in a worker. One line a phase: area,case,dtype,who,metric,value (microseconds), then a
// table, whose last columns are the shortest compile, what remains of the time on a busy machine, and for CPUs that of
// code that is made quickly (`emit` in docs/reference/artifact.md).
//   bench-compile [TARGET] [KERNEL…]
// Or how that time grows with the number of ops (grow.cpp):
//   bench-compile --grow [--limit SECONDS] [--from N] [--most N] [--target TARGET] [FAMILY…]
//   bench-compile --grow --table [--limit SECONDS] [FAMILY…]     the table of docs/measured/compile-time.md
//   bench-compile --grow --print N FAMILY…       their kernels of N ops, as text
#include "kiln/codegen/compile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "grow.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernels.h"

namespace {

constexpr int kRepetitions = 20;

using Samples = std::map<std::string, std::vector<int64_t>>;

int64_t median(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Microseconds by phase; the reason where the kernel cannot be compiled.
kiln::Result<Samples> measure(const kiln::dsl::Kernel& kernel, const std::string& target, const char* emit = "so") {
  auto request = kiln::dsl::encode_request({kernel, target, {}, {}, emit});
  if (!request) return request.error();
  Samples samples;
  for (int i = 0; i < kRepetitions; ++i) {
    auto artifact = kiln::codegen::compile(request->canonical, request->debug, {});
    if (!artifact) return artifact.error();
    for (const auto& [phase, us] : artifact->metadata.phases_us) samples[phase].push_back(us);
  }
  return samples;
}

}  // namespace

int main(int argc, char** argv) {
  kiln::codegen::warm_up();
  if (argc > 1 && std::string(argv[1]) == "--grow") return kiln::bench::grow({argv + 2, argv + argc});
  const std::string target = argc > 1 && std::string(argv[1]) != "cpu" ? argv[1] : kiln::codegen::native_target();
  const std::vector<std::string> only(argv + std::min(argc, 2), argv + argc);
  std::string table;
  for (const kiln::dsl::LibraryKernel& kernel : kiln::dsl::library_kernels()) {
    const std::string name(kernel.name);
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
    auto samples = kernel.ir->ok() ? measure(**kernel.ir, target) : kernel.ir->error();
    char line[256];
    if (!samples) {
      std::snprintf(line, sizeof line, "%-28s [SKIPPED] %.120s\n", name.c_str(), samples.error().message.c_str());
      table += line;
      continue;
    }
    int64_t quick = 0;
    if (target.starts_with("cpu")) {
      if (auto made = measure(**kernel.ir, target, "quick")) quick = median((*made)["total"]);
      std::printf("compile,%s,,kiln quick,total_us,%lld\n", name.c_str(), static_cast<long long>(quick));
    }
    std::map<std::string, int64_t> us;
    const int64_t least = *std::min_element((*samples)["total"].begin(), (*samples)["total"].end());
    int64_t passes = 0;
    for (const auto& [phase, values] : *samples) {
      us[phase] = median(values);
      std::printf("compile,%s,,kiln,%s_us,%lld\n", name.c_str(), phase.c_str(), static_cast<long long>(us[phase]));
      const bool other = phase == "decode" || phase == "lower" || phase == "optimise" || phase == "codegen" ||
                         phase == "link" || phase == "total" || phase == "instantiate";
      if (!other) passes += us[phase];
    }
    std::snprintf(line, sizeof line, "%-28s %8.2f %12.2f %8.2f %8.2f %9.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n",
                  name.c_str(), us["decode"] / 1e3, us["instantiate"] / 1e3, passes / 1e3, us["lower"] / 1e3,
                  us["optimise"] / 1e3, us["codegen"] / 1e3, us["link"] / 1e3, us["total"] / 1e3, least / 1e3,
                  static_cast<double>(quick) / 1e3);
    table += line;
  }
  std::printf("\n%-28s %8s %12s %8s %8s %9s %8s %8s %8s %8s %8s  (ms)\n%s", "kernel", "decode", "instantiate", "passes",
              "lower", "optimise", "codegen", "link", "total", "least", "quick", table.c_str());
  return 0;
}
