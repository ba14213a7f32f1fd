// sort: every element type, both directions, with values of another type, along every axis; ties, zeros, NaN.
#include "algebra_case.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

// Indices as values show whether equal keys keep their order; i1 values have no width of their own in registers.
void check_sort(ElementType type, const Shape& shape, const std::vector<int64_t>& bounds,
                const std::vector<std::string>& targets = {""}) {
  const auto count = static_cast<size_t>(elements_of(shape));
  const std::string other = bounds.empty() ? "" : "1";
  std::vector<int64_t> places(count);
  for (size_t i = 0; i < count; ++i) places[i] = static_cast<int64_t>(i);
  for (const TestArgument& keys : {random_buffer(type, count, 3), tied_buffer(type, elements_of(shape), 4)}) {
    AlgebraCase test(shape,
                     {{type, keys, other},
                      {ElementType::kI64, buffer(places), ""},
                      {ElementType::kI1, tied_buffer(ElementType::kI1, elements_of(shape), 6), ""}},
                     bounds);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (const char* descending : {"", ", descending = 1"}) {
        const std::string attrs = " {axis = " + std::to_string(axis) + descending + "}";
        test.apply("sort %x0" + attrs, {{type, shape}});
        test.apply("sort %x0, %x1" + attrs, {{type, shape}, {ElementType::kI64, shape}});
        test.apply("sort %x0, %x2" + attrs, {{type, shape}, {ElementType::kI1, shape}});
      }
    }
    test.check(targets);
  }
}

class SortOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(SortOnCpu, AnyExtentOfOneAxis) {
  for (int64_t n : extents_for(GetParam())) check_sort(GetParam(), {n}, {});
  check_sort(GetParam(), {130}, {70});
}

TEST_P(SortOnCpu, AnyAxisOfAnyRank) {
  check_sort(GetParam(), shape_for(GetParam()), {});
  check_sort(GetParam(), {19, 70}, {11, 66}, targets_for(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, SortOnCpu, testing::ValuesIn(all_element_types()),
                         [](const testing::TestParamInfo<ElementType>& info) { return type_name(info.param); });

TEST(SortOnCpu, OfAMillionElements) {
  constexpr int64_t kCount = 1 << 20;
  const TestArgument keys = random_buffer(ElementType::kF32, kCount, 5, false);
  AlgebraCase test({kCount}, {{ElementType::kF32, keys, ""}});
  test.apply("sort %x0 {axis = 0}", {{ElementType::kF32, {kCount}}});
  test.apply("topk %x0 {k = 1000, axis = 0}", {{ElementType::kF32, {1000}}, {ElementType::kI32, {1000}}});
  test.check();
}

}  // namespace
}  // namespace kiln::test
