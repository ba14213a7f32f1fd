// The op table itself: what every row must have.
#include <gtest/gtest.h>

#include <set>

#include "kiln/graph/ir.h"

namespace kiln::graph {
namespace {

TEST(TensorOps, EveryRowIsWhole) {
  std::set<std::string> names;
  for (const OpInfo& op : op_table()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_NE(op.has(kPrimitive), op.has(kComposite)) << op.name;
    EXPECT_FALSE(op.doc.empty()) << op.name;
    EXPECT_NE(op.example.find("= " + op.name), std::string::npos) << op.name;
    EXPECT_FALSE(op.results.empty()) << op.name;
    for (const AttrInfo& attr : op.attrs) {
      EXPECT_EQ(attr.kind == AttrKind::kEnum, !attr.values.empty()) << op.name << "." << attr.name;
    }
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kTensorOpCount));
}

TEST(TensorOps, DefaultsAreOfTheirKind) {
  const AttrList norm = with_default_attrs(TensorOp::kLayerNorm, {});
  ASSERT_EQ(norm.size(), 2u);
  EXPECT_EQ(int_attr(norm, 0), 1);
  EXPECT_EQ(float_attr(norm, 1), 1e-5);
  EXPECT_TRUE(with_default_attrs(TensorOp::kSoftmax, {}).empty());
}

}  // namespace
}  // namespace kiln::graph
