// What the assembler says of configs of library kernels: registers, and what it spills. Without a GPU.
//
//   bench-registers [--target cuda:sm_90a] [--configs N] [--seed S] [--part I/N] OUT.jsonl [KERNEL…]
//
// Compiles N configs of each kernel's space for f32 and bf16, drawn by a seed, and writes a line for each. The model's
// estimate is held against such lines (tests/autotune/model/spills_test.cpp). Every int is 2048: registers depend on
// what is known of sizes, and not on these.
#include <algorithm>
#include <deque>
#include <fstream>
#include <random>
#include <set>

#include "bench_tools.h"
#include "kiln/autotune/choose.h"
#include "kiln/autotune/compiler.h"
#include "kiln/autotune/jobs.h"
#include "kiln/dsl/kernels.h"

namespace {

using namespace kiln;
using namespace kiln::autotune;
using bench::fail;
using bench::need;
using nlohmann::json;

constexpr int64_t kSize = 2048;

struct Flags {
  std::string target = "cuda:sm_90a", out;
  size_t configs = 24, part = 0, parts = 1;
  uint64_t seed = 1;
  std::set<std::string> kernels;
};

Flags parse_flags(int argc, char** argv) {
  Flags out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--target") {
      out.target = value, ++i;
    } else if (word == "--configs") {
      out.configs = std::stoul(value), ++i;
    } else if (word == "--seed") {
      out.seed = std::stoul(value), ++i;
    } else if (word == "--part") {
      if (std::sscanf(value.c_str(), "%zu/%zu", &out.part, &out.parts) != 2) fail("--part: write 0/4");
      ++i;
    } else if (out.out.empty()) {
      out.out = word;
    } else {
      out.kernels.insert(word);
    }
  }
  if (out.out.empty()) fail("bench-registers [--target T] [--configs N] [--seed S] [--part I/N] OUT.jsonl [KERNEL…]");
  return out;
}

json sizes_of(const dsl::Kernel& kernel) {
  json out = json::object();
  for (const dsl::Param& param : kernel.params) {
    if (param.type.pointer) continue;
    if (dsl::is_float(param.type.element))
      out[param.name] = 0.5;
    else
      out[param.name] = param.type.element == dsl::ElementType::kI1 ? 1 : kSize;
  }
  return out;
}

// Configs of the kernel's own space; none where there is no such kernel, or nothing says what its arrays are.
std::vector<Config> drawn(const dsl::Kernel& kernel, const Flags& flags) {
  const auto workload = make_workload(kernel, sizes_of(kernel));
  if (!workload) return {};
  const auto space = space_for(kernel, flags.target);
  auto configs =
      space ? enumerate(kernel, flags.target, *space, *workload) : Result<std::vector<Config>>(space.error());
  if (!configs) return {};
  std::mt19937_64 random(flags.seed);
  for (size_t i = configs->size(); i > 2; --i) std::swap((*configs)[i - 1], (*configs)[1 + random() % (i - 1)]);
  configs->resize(std::min(configs->size(), flags.configs));
  return *configs;
}

struct Flight {
  json row;
  std::future<Result<Artifact>> artifact;
};

json landed(Flight flight) {
  const Result<Artifact> artifact = flight.artifact.get();
  if (!artifact) {
    flight.row["error"] = artifact.error().message.substr(0, 120);
    return flight.row;
  }
  const abi::Device device = artifact->metadata.device.value_or(abi::Device());
  flight.row["registers"] = device.registers.value_or(0);
  flight.row["spill_bytes"] = device.spill_bytes.value_or(0);
  flight.row["threads"] = device.threads.value_or(0);
  return flight.row;
}

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = parse_flags(argc, argv);
  const auto compiler = need(daemon_compiler({}, compiles_at_once()));
  std::ofstream file(flags.out, std::ios::app);
  std::deque<Flight> flights;
  const auto land = [&] {
    file << landed(std::move(flights.front())) << "\n" << std::flush;
    flights.pop_front();
  };
  size_t number = 0;
  for (const dsl::LibraryKernel& known : dsl::library_kernels()) {
    const std::string name(known.name);
    for (const char* type : {"f32", "bf16"}) {
      if (!flags.kernels.empty() && !flags.kernels.contains(name)) continue;
      if (number++ % flags.parts != flags.part) continue;
      const auto kernel = library_kernel(name, type);
      if (!kernel) continue;
      const dsl::Facts facts = facts_of(*kernel, *make_workload(*kernel, sizes_of(*kernel)));
      for (const Config& config : drawn(*kernel, flags)) {
        json row = {{"kernel", name}, {"type", type}, {"target", flags.target}, {"config", to_string(config)}};
        flights.push_back({std::move(row), compiler->compile(*kernel, flags.target, config, facts)});
        while (flights.size() > 2 * static_cast<size_t>(compiles_at_once())) land();
      }
    }
  }
  while (!flights.empty()) land();
}
