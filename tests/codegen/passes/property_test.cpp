// Every pass, and the whole pipeline, on random kernels: what the interpreter computes stays the same bit by bit (of a
// NaN: it stays one), the kernel stays well-formed, and running a pass again changes nothing that matters.
// KILN_PASS_KERNELS sets how many kernels, KILN_RANDOM_SEED the first seed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/rounding.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "passes/axis_info.h"
#include "passes/pipeline.h"
#include "random/generator.h"
#include "random/shrink.h"

namespace kiln::test {
namespace {

using dsl::Kernel;
using random_kernel::Case;
using random_kernel::Input;

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

Result<std::vector<Input>> run(const Kernel& kernel, std::vector<Input> inputs,
                               const dsl::InterpretOptions& options = {}) {
  auto grid = random_kernel::grid_of(kernel, inputs);
  if (!grid) return grid.error();
  std::vector<dsl::Argument> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t count = random_kernel::element_count(kernel.params[i].type.element, inputs[i]);
    arguments.push_back({inputs[i].buffer.data(), static_cast<int64_t>(count), inputs[i].bits});
  }
  if (auto done = dsl::interpret(kernel, arguments, *grid, options); !done) return done.error();
  return inputs;
}

// The first element that differs; "" where none does.
std::string difference(const Kernel& kernel, const std::vector<Input>& actual, const std::vector<Input>& expected) {
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!actual[i].is_buffer) continue;
    const dsl::ElementType type = kernel.params[i].type.element;
    for (size_t at = 0; at < random_kernel::element_count(type, actual[i]); ++at) {
      const uint64_t a = random_kernel::element_at(type, actual[i], at);
      const uint64_t e = random_kernel::element_at(type, expected[i], at);
      const bool both_nan = dsl::is_float(type) && std::isnan(dsl::double_from_bits(type, a)) &&
                            std::isnan(dsl::double_from_bits(type, e));
      if (a != e && !both_nan) return kernel.params[i].name + "[" + std::to_string(at) + "] differs";
    }
  }
  return "";
}

// What is wrong with a pass (or, without one, the pipeline) on this case.
std::string wrong(const Case& test, const codegen::Pass* pass) {
  auto kernel = random_kernel::instantiated(test);
  if (!kernel) return kernel.error().message;
  auto expected = run(*kernel, test.inputs);
  if (!expected) return "";  // the shrinker's
  const Kernel after = pass ? pass->run(*kernel) : codegen::run_passes(*kernel);
  if (auto valid = dsl::verify(after); !valid) return valid.error().message;
  auto actual = run(after, test.inputs);
  if (!actual) return actual.error().message + "\n" + dsl::print(after);
  const std::string differs = difference(*kernel, *actual, *expected);
  return differs.empty() ? "" : differs + "\n" + dsl::print(after);
}

void expect_unchanged_results(const codegen::Pass* pass) {
  const uint32_t count = number_from("KILN_PASS_KERNELS", 100), first = number_from("KILN_RANDOM_SEED", 1);
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const Case test = random_kernel::generate(seed);
    if (wrong(test, pass).empty()) continue;
    const Case small = random_kernel::shrink(
        test, [&](const Case& candidate) { return !wrong(candidate, pass).empty(); }, {300, true});
    ADD_FAILURE() << "seed " << seed << ": " << wrong(small, pass) << "\n" << random_kernel::reproducer(small);
    return;
  }
}

class EachPass : public testing::TestWithParam<codegen::Pass> {};

TEST_P(EachPass, ChangesNoResult) { expect_unchanged_results(&GetParam()); }

std::vector<codegen::Pass> every_pass() {
  std::vector<codegen::Pass> out;
  for (const auto table : {codegen::pipeline(), codegen::cpu_passes(), codegen::gpu_passes()}) {
    out.insert(out.end(), table.begin(), table.end());
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Pipeline, EachPass, testing::ValuesIn(every_pass()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Pipeline, ChangesNoResult) { expect_unchanged_results(nullptr); }

// The compiler rounds as the interpreter does: its rows are what instantiate() does behind the constants.
TEST(RoundingPasses, AreTheRestOfInstantiate) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    Case test = random_kernel::generate(seed);
    for (const bool fuses : {false, true}) {
      test.kernel.options.fuse_precision = fuses;
      test.kernel.options.contract = seed % 3 != 0;
      const auto whole = random_kernel::instantiated(test);
      const auto begun = dsl::with_constants(test.kernel, test.config, test.facts);
      ASSERT_TRUE(whole.ok() && begun.ok()) << "seed " << seed;
      EXPECT_EQ(dsl::print(codegen::run_passes(codegen::rounding_passes(), *begun, {})), dsl::print(*whole))
          << "seed " << seed;
    }
  }
}

TEST(Pipeline, LeavesNoDescriptor) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    auto kernel = random_kernel::instantiated(random_kernel::generate(seed));
    ASSERT_TRUE(kernel.ok());
    EXPECT_EQ(dsl::print(codegen::run_passes(*kernel)).find("descriptor"), std::string::npos) << "seed " << seed;
  }
}

// --- axis_info ---

// Shows every int of a program through `print`, and has the interpreter check what is claimed of pointers as `assume`.
void watch(const std::vector<codegen::AxisInfo>& claims, const Kernel& kernel, dsl::Region& region) {
  std::vector<dsl::Op> out;
  auto watch_value = [&](dsl::ValueId id) {
    const dsl::Type& type = kernel.type(id);
    if (type.pointer && !type.descriptor) {
      const dsl::Expr multiple(std::max<int64_t>(claims[id].multiple_of, 1)), contiguous(claims[id].contiguous);
      out.push_back({dsl::OpCode::kAssume,
                     {id},
                     {},
                     dsl::with_default_attrs(dsl::OpCode::kAssume, {multiple, contiguous}),
                     {},
                     {}});
    } else if (type.is_value() && dsl::is_int(type.element)) {
      out.push_back({dsl::OpCode::kPrint, {id}, {}, {std::to_string(id)}, {}, {}});
    }
  };
  for (dsl::ValueId arg : region.args) watch_value(arg);
  for (dsl::Op& op : region.ops) {
    if (!dsl::info(op.code).has(dsl::kPure)) {
      for (dsl::Region& inner : op.regions) watch(claims, kernel, inner);
    }
    const bool ends = op.code == dsl::OpCode::kYield;
    const std::vector<dsl::ValueId> results = op.results;
    out.push_back(std::move(op));
    if (!ends) {
      for (dsl::ValueId id : results) watch_value(id);
    }
  }
  region.ops = std::move(out);
}

std::string false_claim(const codegen::AxisInfo& claim, const dsl::PrintedValue& value) {
  const size_t extent = value.shape.empty() ? 1 : static_cast<size_t>(value.shape.back());
  const auto contiguous = static_cast<size_t>(claim.contiguous), constant = static_cast<size_t>(claim.constant);
  auto at = [&](size_t i) { return dsl::number_from_bits(value.element, value.bits[i]); };
  for (size_t i = 0; i < value.bits.size(); ++i) {
    const std::string lane = "lane " + std::to_string(i) + " of " + std::to_string(value.bits.size()) + ": ";
    if (at(i) < claim.low || at(i) > claim.high) return lane + "out of range";
    if (i % extent % constant != 0 && at(i) != at(i - 1)) return lane + "not constant";
    if (i % extent % contiguous != 0) {
      if (at(i) != at(i - 1) + 1) return lane + "not contiguous";
    } else if (claim.multiple_of == 0 ? at(i) != 0 : at(i) % claim.multiple_of != 0) {
      return lane + "no multiple of " + std::to_string(claim.multiple_of);
    }
  }
  return "";
}

std::string lie(const Case& test) {
  auto kernel = random_kernel::instantiated(test);
  if (!kernel) return "";
  // Both before and after the descriptors are gone: index arithmetic of all kinds.
  for (const bool expanded : {false, true}) {
    const Kernel checked = expanded ? codegen::find_pass("expand_descriptors")->run(*kernel) : *kernel;
    const auto claims = codegen::axis_info(checked, codegen::Wrap::kExact);
    Kernel watched = checked;
    watch(claims, checked, watched.body);
    std::string found;
    dsl::InterpretOptions options;
    options.print = [&](const dsl::PrintRecord& record) {
      char* end = nullptr;
      const size_t id = std::strtoul(record.message.c_str(), &end, 10);
      if (*end != 0 || record.message.empty() || record.values.size() != 1 || !found.empty()) return;  // not ours
      const std::string problem = false_claim(claims[id], record.values[0]);
      if (!problem.empty()) found = "%" + checked.values[id].name + ": " + problem;
    };
    auto ran = run(watched, test.inputs, options);
    if (found.empty() && !ran) found = ran.error().message;
    if (!found.empty()) return found + "\n" + dsl::print(checked);
  }
  return "";
}

TEST(AxisInfo, ClaimsHoldOfWhatTheInterpreterComputes) {
  const uint32_t count = number_from("KILN_PASS_KERNELS", 100), first = number_from("KILN_RANDOM_SEED", 1);
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const Case test = random_kernel::generate(seed);
    if (lie(test).empty()) continue;
    const Case small =
        random_kernel::shrink(test, [](const Case& candidate) { return !lie(candidate).empty(); }, {300, true});
    ADD_FAILURE() << "seed " << seed << ": " << lie(small) << "\n" << random_kernel::reproducer(small);
    return;
  }
}

}  // namespace
}  // namespace kiln::test
