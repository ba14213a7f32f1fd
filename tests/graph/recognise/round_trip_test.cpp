// What decompose() makes of a composite, recognise() finds again: with its operands and attributes.
#include "decompose/samples.h"
#include "kiln/graph/decompose.h"
#include "recognise/recognising.h"

namespace kiln::graph::recognising {
namespace {

using enum TensorOp;

// Of the samples of decompose(), those of composites that are looked for.
bool is_found_again(TensorOp op) {
  switch (op) {
    case kSigmoid:
    case kSilu:
    case kGelu:
    case kMean:
    case kVariance:
    case kLogsumexp:
    case kSoftmax:
    case kLogSoftmax:
    case kLayerNorm:
    case kRmsNorm:
    case kGroupNorm:
    case kBatchNorm:
    case kLinear:
    case kAttention:
    case kCrossEntropy:
      return true;
    default:
      return false;
  }
}

// Op, attributes and the names of inputs that each output's composite takes.
std::string composites_of(const Graph& graph) {
  std::string out;
  for (const Output& output : graph.main().outputs) {
    const Node& node = graph.main().nodes[graph.main().values[output.value].node];
    out += output.name + " = " + info(node.op).name;
    for (const ValueId operand : graph.main().operands_of(node)) {
      out += operand == kNoValue ? " -" : " %" + std::to_string(operand);
    }
    for (size_t i = 0; i < graph.attrs(node).size(); ++i) {
      const Attr& attr = graph.attrs(node)[i];
      if (const auto* number = std::get_if<int64_t>(&attr)) out += " " + std::to_string(*number);
      if (const auto* number = std::get_if<double>(&attr)) {
        char text[40];
        std::snprintf(text, sizeof text, " %.6g", *number);  // eps was rounded to the type
        out += text;
      }
      if (const auto* axes = std::get_if<std::vector<int64_t>>(&attr)) {
        for (const int64_t axis : *axes) out += " " + std::to_string(axis);
      }
    }
    out += "\n";
  }
  return out;
}

TEST(RoundTrip, CompositesAreFoundAgain) {
  std::map<TensorOp, int> tried;
  for (const decomposing::Sample& sample : decomposing::samples()) {
    const Graph& before = *sample.graph.ir();
    bool looked_for = true;
    for (const Output& output : before.main().outputs) {
      const Value& value = before.main().values[output.value];
      const Node& node = before.main().nodes[value.node];
      // Without a bias a linear layer is a product like others.
      const bool plain = node.op == kLinear && before.main().operands_of(node)[2] == kNoValue;
      looked_for = looked_for && is_found_again(node.op) && !plain;
      if (looked_for) ++tried[node.op];
    }
    if (!looked_for) continue;
    SCOPED_TRACE(sample.name);
    auto primitives = decompose(before);
    ASSERT_TRUE(primitives) << primitives.error().message;
    const auto after = recognise(*primitives);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(composites_of(after->graph), composites_of(before));
    // Twice is the same.
    const auto twice = recognise(after->graph);
    ASSERT_TRUE(twice) << twice.error().message;
    EXPECT_TRUE(twice->found.empty());
  }
  for (const OpInfo& op : op_table()) EXPECT_EQ(tried.contains(op.op), is_found_again(op.op)) << op.name;
}

}  // namespace
}  // namespace kiln::graph::recognising
