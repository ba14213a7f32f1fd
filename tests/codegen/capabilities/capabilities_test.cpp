// The capability matrix against the code that the compiler makes: the smallest kernel of each op and type, for one
// processor of each kind that the matrix tells apart.
#include "kiln/target/capabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "form_kernel.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "machine_code.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using target::Capability;
using target::Family;
using target::NamedTarget;
using target::OpForm;
using target::Support;

struct Cell {
  OpForm form;
  ElementType element;
};

std::string name_of(const Cell& cell) {
  return to_string(cell.form) + " of " + std::string(dsl::info(cell.element).name);
}

// Those that the language has.
std::vector<Cell> all_cells() {
  std::vector<Cell> out;
  for (const OpForm& form : target::op_forms()) {
    for (int i = 0; i < dsl::kElementTypeCount; ++i) {
      const auto element = static_cast<ElementType>(i);
      if (target::instance_of(form, element)) out.push_back({form, element});
    }
  }
  return out;
}

std::vector<std::string> all_targets() {
  std::vector<std::string> out;
  for (const NamedTarget& each : target::named_targets()) out.push_back(each.name);
  out.emplace_back("cpu:znver4;dot-bf16=vdpbf16ps");
  out.emplace_back("cpu:neoverse-v2;dot-bf16=bfdot");
  return out;
}

bool are_alike(const NamedTarget& one, const NamedTarget& other, const std::vector<Cell>& cells) {
  return one.processor.family == other.processor.family && std::ranges::all_of(cells, [&](const Cell& cell) {
           const Capability has = capability(cell.form, cell.element, one.processor);
           const Capability others = capability(cell.form, cell.element, other.processor);
           return has.support == others.support && has.instruction == others.instruction && has.how == others.how;
         });
}

// Whether the matrix says the same of one before.
bool is_like_another(const NamedTarget& target, const std::vector<Cell>& cells) {
  for (const NamedTarget& each : target::named_targets()) {
    if (each.name == target.name) return false;
    if (are_alike(each, target, cells)) return true;
  }
  return false;
}

// A comment, on registers that hold the type.
AsmText assembly_for(Family family, ElementType element) {
  if (family == Family::kAmd) return {"; $0 $1", "=v,v"};
  const bool is_wide = dsl::info(element).bits == 64;
  const bool is_float = element == ElementType::kF32 || element == ElementType::kF64;
  const std::string letter = is_wide ? (is_float ? "d" : "l") : is_float ? "f" : "r";  // short ones fill words
  return {"// $0 $1", "=" + letter + "," + letter};
}

Result<Artifact> compiled(const Cell& cell, const NamedTarget& on) {
  static const bool ready = (codegen::initialise(), true);
  (void)ready;
  const dsl::Kernel kernel = form_kernel(cell.form, cell.element, assembly_for(on.processor.family, cell.element));
  dsl::Facts facts;
  for (const dsl::Param& param : kernel.params) {
    facts.push_back(param.type.pointer ? dsl::ParamFact::kAlign16 : dsl::ParamFact::kNone);
  }
  auto request = dsl::encode_request({kernel, on.name, {}, facts, "asm"});
  if (!request) return request.error();
  return codegen::compile(request->canonical, request->debug, {});
}

// What is wrong about a cell; "" where all is as the matrix says.
std::string problem_of(const Cell& cell, const NamedTarget& on) {
  const Capability has = capability(cell.form, cell.element, on.processor);
  const Result<Artifact> made = compiled(cell, on);
  if (has.support == Support::kRefused) {
    if (made) return "is compiled, and should be refused";
    return made.error().message.find(has.how) == std::string::npos ? made.error().message : "";
  }
  if (!made) return made.error().message;
  const MachineCode code({reinterpret_cast<const char*>(made->code.data()), made->code.size()}, on.processor.family);
  const std::string shown = "; the code has " + code.mnemonics();
  if (!has.instruction.empty() && !code.has(has.instruction)) {
    return "is " + std::string(to_string(has.support)) + " without " + std::string(has.instruction) + shown;
  }
  if (has.support != Support::kEmulated) return "";
  for (std::string_view other : instructions_elsewhere(cell.form, cell.element, on.processor.family)) {
    if (other != has.instruction && code.has(other)) return "has " + std::string(other) + " and is emulated" + shown;
  }
  return "";
}

class Capabilities : public testing::TestWithParam<std::string> {};

TEST_P(Capabilities, AreThoseOfTheCodeThatIsMade) {
  constexpr size_t kPart = 40, kPartOfAlike = 240;
  const NamedTarget on = *target::find_target(GetParam());
  const std::vector<Cell> cells = all_cells();
  for (const Cell& cell : sampled(cells, cells.size() / (is_like_another(on, cells) ? kPartOfAlike : kPart))) {
    const std::string problem = problem_of(cell, on);
    if (problem.find("this compiler was built without") != std::string::npos) GTEST_SKIP() << problem;
    EXPECT_EQ(problem, "") << name_of(cell);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Capabilities, testing::ValuesIn(all_targets()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// What a CPU has is LLVM's to say, and what an artifact asks of its host.
TEST(CapabilitiesOfCpus, FeaturesAreThoseOfLlvm) {
  for (const target::CpuRow& row : target::cpus()) {
    const std::string name = std::string("cpu:") + row.name;
    const auto made = compiled({{dsl::OpCode::kAdd}, ElementType::kF32}, *target::find_target(name));
    ASSERT_TRUE(made.ok()) << made.error().message;
    std::vector<std::string> needs = made->metadata.needs->features;
    std::ranges::sort(needs);
    EXPECT_EQ(target::features_of(row), needs) << name;
  }
}

}  // namespace
}  // namespace kiln::test
