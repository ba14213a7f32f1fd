// kiln-passes [--pass NAME]… [--claims] [--plan N | --gpu-plan N] [--workers W] FILE.kiln: instantiates a kernel with
// its defaults, runs the passes in the order given (`all`: the pipeline), and prints what came out. Where a pass of
// rounding_passes() is named, they are no part of instantiating. `--claims` prints what axis_info says of each int
// instead; `--plan` prints the stages that the schedule option split_k, with `--workers` stream_k too, gives it on a
// CPU, `--gpu-plan` on a GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/rounding.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "launches/launch_sequence.h"
#include "passes/axis_info.h"
#include "passes/pipeline.h"

namespace {

using kiln::dsl::Kernel;

int fail(const std::string& message) {
  std::fprintf(stderr, "kiln-passes: %s\n", message.c_str());
  return 1;
}

std::string number(kiln::dsl::Wide value) {
  return value > INT64_MAX ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(static_cast<int64_t>(value));
}

void print_claims(const Kernel& kernel) {
  const auto claims = kiln::codegen::axis_info(kernel, kiln::codegen::Wrap::kExact);
  for (size_t id = 0; id < claims.size(); ++id) {
    const kiln::dsl::Type& type = kernel.values[id].type;
    if (kernel.values[id].name.empty() || (!type.pointer && kiln::dsl::is_float(type.element)) || type.descriptor)
      continue;
    const auto& claim = claims[id];
    std::printf("%%%s:", kernel.values[id].name.c_str());
    if (!type.pointer) std::printf(" %s..%s", number(claim.low).c_str(), number(claim.high).c_str());
    std::printf(" multiple %lld contiguous %lld constant %lld", static_cast<long long>(claim.multiple_of),
                static_cast<long long>(claim.contiguous), static_cast<long long>(claim.constant));
    if (claim.base != kiln::dsl::kNoValue && claim.base != id && kernel.values[claim.base].name != "") {
      const bool is_far = claim.base_low < -(kiln::dsl::Wide{1} << 66);
      std::printf(" base %s%s..%s", kernel.values[claim.base].name.c_str(),
                  is_far ? "" : ("+" + number(claim.base_low)).c_str(), number(claim.base_high).c_str());
    }
    std::printf("\n");
  }
}

kiln::Result<Kernel> instantiated(const Kernel& kernel, const std::vector<std::string>& passes) {
  const auto is_named = [&](const kiln::codegen::Pass& pass) {
    return std::ranges::find(passes, pass.name) != passes.end();
  };
  if (std::ranges::any_of(kiln::codegen::rounding_passes(), is_named)) return kiln::dsl::with_constants(kernel, {}, {});
  return kiln::dsl::instantiate(kernel, {}, {});
}

void print_steps(const kiln::codegen::LaunchSequence& sequence) {
  std::fputs(kiln::codegen::print(sequence).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> passes;
  std::string file;
  bool claims = false;
  std::string plan;
  int64_t parts = 1, workers = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--pass") == 0 && i + 1 < argc) {
      passes.emplace_back(argv[++i]);
    } else if (std::strcmp(argv[i], "--claims") == 0) {
      claims = true;
    } else if (std::string(argv[i]).ends_with("plan") && i + 1 < argc) {
      plan = argv[i];
      parts = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--workers") == 0 && i + 1 < argc) {
      workers = std::atoi(argv[++i]);
    } else {
      file = argv[i];
    }
  }
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  auto parsed = kiln::dsl::parse(text.str(), file);
  if (!parsed) return fail(parsed.error().message);
  auto kernel = instantiated(*parsed, passes);
  if (!kernel) return fail(kernel.error().message);
  for (const std::string& name : passes) {
    if (name == "all") {
      *kernel = kiln::codegen::run_passes(*kernel);
    } else if (const auto* pass = kiln::codegen::find_pass(name)) {
      *kernel = pass->run(*kernel);
    } else {
      return fail("no pass `" + name + "`; there are " + kiln::codegen::pass_names());
    }
    if (auto valid = kiln::dsl::verify(*kernel); !valid) return fail("after " + name + ": " + valid.error().message);
  }
  const kiln::dsl::ConstexprValues config = {{"split_k", parts}, {"stream_k", workers}};
  if (plan == "--plan") {
    print_steps(kiln::codegen::make_launches(std::move(*kernel), config));
  } else if (plan == "--gpu-plan") {
    print_steps(kiln::codegen::make_gpu_launches(std::move(*kernel), config));
  } else if (claims) {
    print_claims(*kernel);
  } else {
    std::fputs(kiln::dsl::print(*kernel).c_str(), stdout);
  }
  return 0;
}
