#include "launch_harness.h"

#include <algorithm>

#include "compile_once.h"
#include "cuda_device.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "passes/pipeline.h"
#include "sampled.h"

namespace kiln::test {
namespace {

dsl::ConstexprValues without_options(dsl::ConstexprValues config) {
  config.erase(std::string(dsl::kSplitK));
  config.erase(std::string(dsl::kStreamK));
  return config;
}

void expect_equal(const dsl::Kernel& kernel, const std::vector<TestArgument>& actual,
                  const std::vector<TestArgument>& expected, const Match& match, const std::string& target) {
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!actual[i].is_buffer) continue;
    std::string explanation;
    const size_t wrong =
        count_differences(kernel.params[i].type.element, actual[i].buffer, expected[i].buffer, match, explanation);
    EXPECT_EQ(wrong, 0u) << "target " << target << ", argument " << i << "\n" << explanation;
  }
}

// Of each vendor one target, by turns.
std::vector<std::string> on_each_kind(std::vector<std::string> targets) {
  const auto amd = std::ranges::stable_partition(targets, [](const std::string& target) { return target.empty(); });
  const std::vector<std::string> chosen = sampled(std::vector<std::string>(amd.begin(), amd.end()), 1);
  targets.erase(amd.begin(), amd.end());
  targets.insert(targets.end(), chosen.begin(), chosen.end());
  return targets;
}

// Stages one after another as kernels of their own.
void run_steps(const codegen::LaunchSequence& sequence, std::vector<TestArgument>& arguments, size_t programs,
               const std::string& target) {
  const bool has_workspace = sequence.steps.size() > 1;
  if (has_workspace) {
    arguments.push_back(buffer(std::vector<uint8_t>(static_cast<size_t>(sequence.workspace_bytes) * programs, 0xff)));
  }
  for (const codegen::LaunchStep& step : sequence.steps) {
    auto artifact = compile_once(step.kernel, {}, facts_of(step.kernel, arguments), target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    auto done = run_compiled(step.kernel, *artifact, arguments);
    ASSERT_TRUE(done.ok()) << target << ": " << done.error().message << dsl::print(step.kernel);
  }
  if (has_workspace) arguments.pop_back();
}

}  // namespace

codegen::LaunchSequence gpu_launches(const dsl::Kernel& kernel, const dsl::ConstexprValues& config) {
  auto concrete = dsl::instantiate(kernel, without_options(config), {});
  EXPECT_TRUE(concrete.ok()) << concrete.error().message;
  return codegen::make_gpu_launches(codegen::run_passes(std::move(*concrete)), config);
}

std::vector<int64_t> chunks_of(const codegen::LaunchSequence& sequence) {
  std::vector<int64_t> out;
  for (const codegen::LaunchStep& step : sequence.steps) {
    auto valid = dsl::verify(step.kernel);
    EXPECT_TRUE(valid.ok()) << valid.error().message << dsl::print(step.kernel);
    out.push_back(step.chunks);
  }
  return out;
}

void expect_as_interpreted(const dsl::Kernel& kernel, const LaunchTrial& trial) {
  const bool is_first = is_first_call();
  const dsl::ConstexprValues config = without_options(trial.config);
  const codegen::LaunchSequence sequence = gpu_launches(kernel, trial.config);
  chunks_of(sequence);
  auto expected = trial.arguments;
  auto interpreted = run_interpreted(kernel, config, {}, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  std::vector<std::string> compiled = trial.compiled;
  std::erase_if(compiled, [](const std::string& target) {
    return !wants_targets(target.empty() ? "cpu" : "amd") && !(on_cuda() && target.empty());
  });
  for (const std::string& target : is_first ? on_each_kind(compiled) : sampled(compiled, 1)) {
    auto artifact = compile_once(kernel, trial.config, facts_of(kernel, trial.arguments), target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    if (!target.empty() && sequence.steps.size() > 1) {
      EXPECT_EQ(artifact->metadata.plan.size(), sequence.steps.size()) << target;
    }
    auto actual = trial.arguments;
    auto done = run_compiled(kernel, *artifact, actual);
    ASSERT_TRUE(done.ok()) << target << ": " << done.error().message;
    expect_equal(kernel, actual, expected, trial.match, target.empty() ? "native" : target);
  }
  if (!wants_targets("gpu")) return;
  auto grid = grid_of(kernel, config, trial.arguments);
  ASSERT_TRUE(grid.ok());
  if (!is_first && !is_sampled(2)) return;
  for (const std::string& target : sampled(trial.emulated, 1)) {
    auto actual = trial.arguments;
    run_steps(sequence, actual, size_t{(*grid)[0]} * (*grid)[1] * (*grid)[2], target);
    expect_equal(kernel, actual, expected, trial.match, target);
  }
}

std::string reduce_text(const std::string& type, const std::string& out, int64_t elements, const std::string& reduce) {
  TextKernel k("%x: ptr<" + type + "> readonly, %out: ptr<" + out + ">, %n: i32");
  const TextKernel::Shape shape = {elements};
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, {"%n"}));
  k.line("store %out, " + k.op("reduce " + x + " " + reduce));
  return k.text();
}

std::string softmax_text(int64_t columns) {
  TextKernel k("%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32");
  const TextKernel::Shape shape = {columns};
  const std::string mask = k.mask(shape, {"%n"});
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + mask + ", " + k.fill("-inf", "f32", shape));
  const std::string most = k.op("reduce " + x + " {kind = max, axis = 0}");
  const std::string e = k.op("math " + k.op("sub " + x + ", " + k.splat(most, shape)) + " {fn = exp}");
  const std::string sum = k.op("reduce " + e + " {kind = sum, axis = 0}");
  k.line("store " + k.pointers("%out", shape) + ", " + k.op("div " + e + ", " + k.splat(sum, shape)) + ", " + mask);
  return k.text();
}

std::string scan_text(const std::string& type, int64_t elements, const std::string& attrs) {
  TextKernel k("%x: ptr<" + type + "> readonly, %y: ptr<" + type + ">, %n: i32");
  const TextKernel::Shape shape = {elements};
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, {"%n"}));
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("scan " + x + " {axis = 0, " + attrs + "}"));
  return k.text();
}

std::string topk_text(int64_t elements, int64_t k, bool largest) {
  TextKernel out("%x: ptr<i32> readonly, %v: ptr<i32>, %i: ptr<i32>");
  const std::string x =
      out.op("and " + out.op("load " + out.pointers("%x", {elements})) + ", " + out.fill("65535", "i32", {elements}));
  out.line("%a, %b = topk " + x + " {k = " + std::to_string(k) + ", axis = 0, largest = " + (largest ? "1}" : "0}"));
  out.line("store " + out.pointers("%v", {k}) + ", %a");
  out.line("store " + out.pointers("%i", {k}) + ", %b");
  return out.text();
}

std::string sort_text(const std::string& type, int64_t elements, bool descending, bool values) {
  TextKernel k("%x: ptr<" + type + ">, %y: ptr<" + type + ">, %places: ptr<i32>");
  const std::string x = k.op("load " + k.pointers("%x", {elements}));
  const std::string attrs = std::string(" {axis = 0, descending = ") + (descending ? "1}" : "0}");
  if (values) {
    const std::string i = k.op("arange {start = 0, end = " + std::to_string(elements) + "}");
    k.line("%a, %b = sort " + x + ", " + i + attrs);
    k.line("store " + k.pointers("%places", {elements}) + ", %b");
  } else {
    k.line("%a = sort " + x + attrs);
  }
  k.line("store " + k.pointers("%y", {elements}) + ", %a");
  return k.text();
}

}  // namespace kiln::test
