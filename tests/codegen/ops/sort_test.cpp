// sort: every element type, both directions, with values of another type, along every axis; ties, zeros, NaN.
#include <cmath>
#include <cstring>

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

// Alone in their row, keys tell the elements but for zeros of both signs and NaN of other bits, which keep their order.
TEST(SortOnCpu, KeysThatTellTheElementsOrDoNot) {
  for (ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kF8E4M3}) {
    const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
    const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
    const uint64_t nan = dsl::bits_from_double(type, std::nan(""));
    for (const std::vector<uint64_t>& odd : {std::vector<uint64_t>{}, {sign}, {sign, nan, nan | sign}}) {
      for (int64_t n : {15, 300}) {
        TestArgument keys = tied_buffer(type, n, 4);
        for (size_t at = 0; at < static_cast<size_t>(n); ++at) {
          uint64_t bits = at % 3 == 0 ? 0 : dsl::bits_from_double(type, at % 7 == 0 ? std::nan("") : double(at % 5));
          if (at % 4 == 1 && !odd.empty()) bits = odd[at / 4 % odd.size()];
          std::memcpy(keys.buffer.data() + at * bytes, &bits, bytes);
        }
        AlgebraCase test({n}, {{type, keys, ""}});
        test.apply("sort %x0 {axis = 0}", {{type, {n}}});
        test.apply("sort %x0 {axis = 0, descending = 1}", {{type, {n}}});
        test.check(type == ElementType::kF32 ? all_targets() : std::vector<std::string>{""});
      }
    }
  }
}

// On both sides of the bounds between networks and passes over digits, and on GPUs between networks and windows.
TEST(SortOnCpu, LongRows) {
  for (int64_t n : {4096, 4097, 16384, 16385}) {
    const auto count = static_cast<size_t>(n);
    std::vector<int64_t> places(count);
    for (size_t i = 0; i < count; ++i) places[i] = static_cast<int64_t>(i);
    TestArgument keys = random_buffer(ElementType::kF32, count, 5, false);
    // Keys do not tell all of these.
    for (size_t at = 0; n == 4096 && at < count; at += 7) {
      const uint32_t bits = at % 5 == 0 ? 0x7fc00000u + static_cast<uint32_t>(at) : at % 3 == 0 ? 0x80000000u : 0u;
      std::memcpy(keys.buffer.data() + 4 * at, &bits, 4);
    }
    AlgebraCase test({n}, {{ElementType::kF32, keys, ""},
                           {ElementType::kI64, random_buffer(ElementType::kI64, count, 6), ""},
                           {ElementType::kI64, buffer(places), ""}});
    test.apply("sort %x0 {axis = 0}", {{ElementType::kF32, {n}}});
    test.apply("sort %x0, %x2 {axis = 0}", {{ElementType::kF32, {n}}, {ElementType::kI64, {n}}});
    test.apply("sort %x1 {axis = 0}", {{ElementType::kI64, {n}}});
    // Of twice as many the records do not fit into a GPU's shared memory.
    const bool fits = n <= 4097;
    if (fits || wants_targets("cpu")) {
      test.check(n % 2 == 1 ? std::vector<std::string>{""} : fits ? all_targets() : cpu_targets());
    }
  }
}

TEST(SortOnCpu, OfAMillionElements) {
  if (!wants_targets("cpu")) GTEST_SKIP() << "a GPU has no place for them";
  constexpr int64_t kCount = 1 << 20;
  const TestArgument keys = random_buffer(ElementType::kF32, kCount, 5, false);
  AlgebraCase test({kCount}, {{ElementType::kF32, keys, ""}});
  test.apply("sort %x0 {axis = 0}", {{ElementType::kF32, {kCount}}});
  test.apply("topk %x0 {k = 1000, axis = 0}", {{ElementType::kF32, {1000}}, {ElementType::kI32, {1000}}});
  test.check();
}

}  // namespace
}  // namespace kiln::test
