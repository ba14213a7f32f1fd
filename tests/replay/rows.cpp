#include "rows.h"

#include <algorithm>

#include "kiln/dsl/kernels.h"
#include "random/generator.h"
#include "requests/requests.h"

namespace kiln::replay {
namespace {

constexpr uint64_t kRandomKernels = 300;

constexpr Target kTargets[] = {
    {"amd:gfx1100", "asm", "amdgcn"}, {"amd:gfx942", "asm", "amdgcn"}, {"cpu:x86-64-v2", "asm"},
    {"cpu:x86-64-v3", "asm"},         {"cpu:x86-64-v4", "asm"},        {"cuda:sm_80", "ptx", "nvptx"},
    {"cuda:sm_90a", "ptx", "nvptx"},
};

// Schedule options that send a product another way through the compiler.
struct Option {
  const char* name;
  int64_t value;
};
constexpr Option kOptions[] = {{"split_k", 2},         {"stream_k", 64},       {"num_warps", 8},
                               {"num_stages", 2},      {"warp_specialise", 1}, {"warp_specialise", 2},
                               {"warp_specialise", 3}, {"warp_specialise", 4}, {"waves_per_eu", 2}};

bool has_products(const dsl::Region& region) {
  return std::ranges::any_of(region.ops, [](const dsl::Op& op) {
    return op.code == dsl::OpCode::kDot || op.code == dsl::OpCode::kDotScaled ||
           std::ranges::any_of(op.regions, has_products);
  });
}

bool makes_a_difference(const Subject& subject, std::string_view target) {
  const auto complete = dsl::complete_constexprs(subject.kernel, subject.config, target);
  if (!complete) return true;  // an error is a result too
  return std::ranges::all_of(subject.config, [&](const auto& item) { return complete->contains(item.first); });
}

void add_library(std::vector<Subject>& out) {
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    const dsl::Kernel& ir = **kernel.ir;
    const std::string name(kernel.name);
    const dsl::Facts aligned = test::aligned_facts(ir);
    out.push_back({name + " aligned", ir, {}, aligned});
    out.push_back({name + " plain", ir, {}, {}});
    if (!has_products(ir.body)) continue;
    for (const Option& option : kOptions) {
      const std::string chosen = std::string(option.name) + "=" + std::to_string(option.value);
      out.push_back({name + " " + chosen, ir, {{option.name, option.value}}, aligned});
    }
  }
}

void add_random(std::vector<Subject>& out) {
  for (uint64_t seed = 1; seed <= kRandomKernels; ++seed) {
    random_kernel::Case made = random_kernel::generate(seed);
    out.push_back({"random " + std::to_string(seed), std::move(made.kernel), made.config, made.facts});
  }
}

}  // namespace

std::span<const Target> targets() { return kTargets; }

std::vector<Subject> subjects() {
  std::vector<Subject> out;
  add_library(out);
  add_random(out);
  return out;
}

std::vector<Row> rows_of(const std::vector<Subject>& subjects) {
  std::vector<Row> out;
  for (const Subject& subject : subjects) {
    for (const Target& target : kTargets) {
      if (makes_a_difference(subject, target.name)) out.push_back({&subject, &target});
    }
  }
  std::ranges::sort(out, {}, &Row::name);
  return out;
}

}  // namespace kiln::replay
