// One row that all rows of a tile share, of elements that cost much: computed once, ahead of the rows.
#include "algebra_case.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

// y = x * exp2(v), of a row v or of a column.
std::string scaled(const Shape& v) {
  TextKernel k("%x: ptr<f32>, %v: ptr<f32>, %y: ptr<f32>");
  const std::string factor = k.op("math " + k.op("load " + k.pointers("%v", v)) + " {fn = exp2}");
  const std::string all = k.op("broadcast " + factor + " {shape = [40, 72]}");
  const std::string x = k.op("load " + k.pointers("%x", {40, 72}));
  k.line("store " + k.pointers("%y", {40, 72}) + ", " + k.op("mul " + x + ", " + all));
  return k.text();
}

int64_t scratch_of(const std::string& text) {
  auto artifact = compile(parse_kernel(text), {}, {}, "cpu:x86-64-v4");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  return artifact ? artifact->metadata.scratch_bytes.value_or(0) : -1;
}

TEST(RepeatedRowsOnCpu, AreComputedOnce) {
  const std::string text = scaled({1, 72});
  EXPECT_GE(scratch_of(text), 72 * 4);
  expect_same(text, {{random_buffer(ElementType::kF32, 40 * 72, 1), random_buffer(ElementType::kF32, 72, 2, false),
                      random_buffer(ElementType::kF32, 40 * 72, 3)},
                     {2e-6, 0}});
}

// What a row has one of is at hand when the row is walked.
TEST(RepeatedRowsOnCpu, AreNotColumns) { EXPECT_EQ(scratch_of(scaled({40, 1})), 0); }

}  // namespace
}  // namespace kiln::test
