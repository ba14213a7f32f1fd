// histogram: every int type, few and many bins, tiles of any rank, elements out of range on both sides.
#include "algebra_case.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

void check_histogram(ElementType type, const Shape& shape, const std::vector<int64_t>& bounds,
                     const std::vector<std::string>& targets = {""}) {
  const std::string other = bounds.empty() ? "" : "3";
  const auto count = static_cast<size_t>(elements_of(shape));
  for (const TestArgument& x : {random_buffer(type, count, 3), tied_buffer(type, elements_of(shape), 4)}) {
    AlgebraCase test(shape, {{type, x, other}}, bounds);
    for (int64_t bins : {1, 2, 5, 16, 127, 300, 5000}) {
      test.apply("histogram %x0 {bins = " + std::to_string(bins) + "}", {{ElementType::kI32, {bins}}});
    }
    test.check(targets);
  }
}

class HistogramOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(HistogramOnCpu, AnyShape) {
  for (int64_t n : extents_for(GetParam())) check_histogram(GetParam(), {n}, {});
  check_histogram(GetParam(), shape_for(GetParam()), {});
  check_histogram(GetParam(), {19, 70}, {11, 66}, targets_for(GetParam()));
}

std::vector<ElementType> int_types() {
  std::vector<ElementType> out;
  for (ElementType type : all_element_types()) {
    if (dsl::is_int(type) && type != ElementType::kI1) out.push_back(type);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Types, HistogramOnCpu, testing::ValuesIn(int_types()),
                         [](const testing::TestParamInfo<ElementType>& info) { return type_name(info.param); });

}  // namespace
}  // namespace kiln::test
