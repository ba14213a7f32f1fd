// Stores of permuted tiles, which go through scratch in square blocks of registers.
#include "algebra_case.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

Shape permuted(const Shape& shape, const std::vector<size_t>& order) {
  Shape out;
  for (size_t axis : order) out.push_back(shape[axis]);
  return out;
}

void check_permute(ElementType type, const Shape& shape, const std::vector<size_t>& order,
                   const std::vector<int64_t>& bounds, const std::vector<std::string>& targets) {
  const auto count = static_cast<size_t>(elements_of(shape));
  AlgebraCase test(shape, {{type, random_buffer(type, count, 3), bounds.empty() ? "" : "1"}}, bounds);
  std::string list;
  for (size_t axis : order) list += (list.empty() ? "" : ", ") + std::to_string(axis);
  test.apply("permute %x0 {order = [" + list + "]}", {{type, permuted(shape, order)}});
  test.check(targets);
}

class TransposeOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(TransposeOnCpu, AnyExtents) {
  const std::vector<Shape> shapes = {{64, 64}, {16, 16}, {4, 4}, {5, 100}, {67, 33}, {3, 40}};
  for (const Shape& shape : sampled(shapes, 3)) check_permute(GetParam(), shape, {1, 0}, {}, {""});
  check_permute(GetParam(), {35, 48}, {1, 0}, {31, 17}, targets_for(GetParam()));
}

TEST_P(TransposeOnCpu, AnyOrderOfAxes) {
  const std::vector<std::tuple<Shape, std::vector<size_t>, Shape>> cases = {
      {{3, 18, 20}, {0, 2, 1}, {}},
      {{18, 3, 20}, {2, 1, 0}, {}},
      {{18, 3, 20}, {2, 0, 1}, {}},
      {{5, 3, 4, 20}, {1, 3, 2, 0}, {4, 3, 4, 19}}};
  for (const auto& [shape, order, bounds] : sampled(cases, 2)) check_permute(GetParam(), shape, order, bounds, {""});
}

INSTANTIATE_TEST_SUITE_P(Types, TransposeOnCpu, testing::ValuesIn(all_element_types()),
                         [](const testing::TestParamInfo<ElementType>& info) { return type_name(info.param); });

// The tile is wanted before and after it was transposed, under ops on both sides, and in a loop.
TEST(TransposeOnCpu, BetweenOtherOps) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i32");
  const Shape shape = {20, 36}, turned = {36, 20};
  const std::string zero = k.constant("0", "i32"), one = k.constant("1", "i32");
  const std::string from = k.pointers("%x", shape), to = k.pointers("%y", turned), other = k.pointers("%z", shape);
  k.line("for %i = " + zero + " to %n step " + one + " {");
  const std::string v = k.op("load " + from), w = k.op("math " + v + " {fn = exp2}");
  const std::string t = k.op("permute " + w + " {order = [1, 0]}"), u = k.op("add " + t + ", " + t);
  k.line("store " + to + ", " + u).line("store " + other + ", " + w).line("yield").line("}");
  for (int64_t n : {0, 1, 3}) {
    expect_same(k.text(), {{random_buffer(ElementType::kF32, 720, 1, false), random_buffer(ElementType::kF32, 720, 2),
                            random_buffer(ElementType::kF32, 720, 3), int_scalar(n)},
                           {2e-6, 0}});
  }
}

std::string assembly_of(const std::string& text) {
  auto artifact = compile(parse_kernel(text), {}, {}, "cpu:x86-64-v4", "asm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

// Neither gathers nor scatters; nor scratch where memory is contiguous along the right axis already.
TEST(TransposeOnCpu, ByWholeVectors) {
  const Shape shape = {64, 64};
  for (const Shape& strides : {Shape{64, 1}, Shape{1, 64}}) {
    TextKernel k("%x: ptr<f32>, %y: ptr<f32>");
    const std::string v = k.op("load " + k.pointers("%x", shape, 0, strides));
    k.line("store " + k.pointers("%y", shape) + ", " + k.op("permute " + v + " {order = [1, 0]}"));
    const std::string code = assembly_of(k.text());
    EXPECT_EQ(code.find("gather"), std::string::npos) << code;
    EXPECT_EQ(code.find("scatter"), std::string::npos) << code;
    EXPECT_EQ(code.find("vperm") != std::string::npos, strides[0] == 64) << code;
  }
}

}  // namespace
}  // namespace kiln::test
