// Every rule against central differences, at random points and several sizes; the table decides which ops there must be
// cases of.
#include <gtest/gtest.h>

#include "differentiate/differences.h"
#include "differentiate/rules.h"

namespace kiln::graph::test {
namespace {

class Gradients : public ::testing::TestWithParam<GradientCase> {};

Worst& worst_of_all() {
  static Worst worst;
  return worst;
}

TEST_P(Gradients, AreDifferences) {
  const Sizes sizes[] = {{{"n", 3}, {"m", 2}}, {{"n", 1}, {"m", 4}}, {{"n", 4}, {"m", 1}}};
  Worst worst;
  for (uint32_t i = 0; i < std::size(sizes); ++i) {
    check_gradients(GetParam(), sizes[i], 17 + i, worst);
    if (HasFailure()) return;
  }
  EXPECT_GT(worst.checks, 0);
  Worst& all = worst_of_all();
  all.checks += worst.checks;
  if (worst.error > all.error) {
    all.error = worst.error;
    all.where = worst.where;
  }
  // The last line printed has the figures of all cases that this process ran.
  std::printf("gradients: %d checked, worst error %.2e (%s)\n", all.checks, all.error, all.where.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, Gradients, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char c : info.param.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST(GradientTable, HasEveryOpAndACaseOfEachRule) {
  std::set<TensorOp> covered;
  for (const GradientCase& each : all_cases()) {
    for (const Body& body : case_graph(each).bodies) {
      for (const Node& node : body.nodes) covered.insert(node.op);
    }
  }
  for (const OpInfo& op : op_table()) {
    const GradientKind kind = gradient_entry(op.op).kind;
    EXPECT_NE(kind, GradientKind::kMissing) << op.name << " has no entry in the table of gradients";
    // Kernels and refusals: errors_test.cpp and kernel_test.cpp.
    if (kind == GradientKind::kNone || kind == GradientKind::kRefused || op.op == TensorOp::kKernel) continue;
    EXPECT_TRUE(covered.contains(op.op)) << op.name << " has a gradient and no case";
  }
}

}  // namespace
}  // namespace kiln::graph::test
