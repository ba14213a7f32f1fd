// How long a warm compiler takes from a kernel's request to a linked code object for an AMD GPU, beside the same
// kernel's PTX: both compiled by turns in this process, each kernel with the constexprs that its text gives that
// target, facts that a well-aligned launch has. The least of the thread's processor times counts, which is what remains
// on a busy machine.
//   bench-compile-amd [TARGET [KERNEL…]]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/kernels.h"
#include "requests/requests.h"

namespace {

using namespace kiln;

constexpr int kRepetitions = 5;
constexpr char kCudaTarget[] = "cuda:sm_90a";

double thread_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// `best` is the least so far; 0: none.
Result<void> time_compile(const RequestBytes& request, double& best) {
  const double start = thread_milliseconds();
  auto artifact = codegen::compile(request.canonical, request.debug, {});
  if (!artifact) return artifact.error();
  const double time = thread_milliseconds() - start;
  if (best == 0 || time < best) best = time;
  return {};
}

struct Ratios {
  double to_ptx = 0, to_cubin = 0;
};

Result<Ratios> compare(const dsl::Kernel& kernel, const std::string& name, const std::string& target) {
  const dsl::Facts facts = test::aligned_facts(kernel);
  const Result<RequestBytes> requests[] = {test::request_for(kernel, kCudaTarget, {}, facts, "ptx"),
                                           test::request_for(kernel, kCudaTarget, {}, facts, "so"),
                                           test::request_for(kernel, target, {}, facts, "so")};
  double ms[3] = {};
  for (int i = 0; i < kRepetitions; ++i) {
    for (size_t which = 0; which < 3; ++which) {
      if (!requests[which]) return requests[which].error();
      if (auto done = time_compile(*requests[which], ms[which]); !done) return done.error();
    }
  }
  static constexpr const char* kNames[] = {"ptx", "cubin", "amd"};
  for (size_t which = 0; which < 3; ++which) {
    std::printf("compile,%s,,%s,total_ms,%.2f\n", name.c_str(), kNames[which], ms[which]);
  }
  const Ratios out = {ms[2] / ms[0], ms[2] / ms[1]};
  std::fprintf(stderr, "%-28s %9.2f %9.2f %9.2f %8.2f %8.2f\n", name.c_str(), ms[0], ms[1], ms[2], out.to_ptx,
               out.to_cubin);
  return out;
}

void print_summary(const char* what, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  std::fprintf(stderr, "ratio to %s: median %.2f, worst %.2f\n", what, ratios[ratios.size() / 2], ratios.back());
}

}  // namespace

int main(int argc, char** argv) {
  codegen::warm_up();
  const std::string target = argc > 1 ? argv[1] : "amd:gfx942";
  const std::vector<std::string> only(argv + std::min(argc, 2), argv + argc);
  std::vector<double> to_ptx, to_cubin;
  std::fprintf(stderr, "%-28s %9s %9s %9s %8s %8s  (ms)\n", "kernel", "PTX", "cubin", "AMD", "to PTX", "to cubin");
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    const std::string name(kernel.name);
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
    const Result<Ratios> ratios = kernel.ir->ok() ? compare(**kernel.ir, name, target) : kernel.ir->error();
    if (ratios) {
      to_ptx.push_back(ratios->to_ptx);
      to_cubin.push_back(ratios->to_cubin);
    } else {
      std::fprintf(stderr, "%-28s [SKIPPED] %.120s\n", name.c_str(), ratios.error().message.c_str());
    }
  }
  if (to_ptx.empty()) return 1;
  print_summary("PTX", std::move(to_ptx));
  print_summary("cubin", std::move(to_cubin));
  return 0;
}
