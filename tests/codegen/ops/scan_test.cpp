// scan: every kind on every element type, forward and backward, along every axis, and regions.
#include "algebra_case.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

// What another order of accumulation may change. A running product is off by as many roundings as it has factors.
Match sum_match(ElementType type, int64_t count) {
  const auto n = static_cast<double>(count);
  switch (type) {
    case ElementType::kF64:
      return {1e-13, 1e-15 * n, true};
    case ElementType::kF32:
      return {2e-7 * n, 2e-7 * n, true};
    case ElementType::kF16:
      return {1.0 / 1024, 2e-7 * n, true};
    case ElementType::kBF16:
      return {1.0 / 128, 2e-7 * n, true};
    case ElementType::kF8E4M3:
      return {1.0 / 8, 2e-3, true};
    default:
      return {1.0 / 4, 2e-5, true};
  }
}

std::vector<std::string> exact_kinds(ElementType type) {
  if (type == ElementType::kI1) return {"and", "or", "xor"};
  if (dsl::is_float(type)) return {"min", "max"};
  return {"sum", "prod", "min", "max", "and", "or", "xor"};
}

std::string scan(const std::string& kind, size_t axis, bool reverse) {
  return "scan %x0 {kind = " + kind + ", axis = " + std::to_string(axis) + (reverse ? ", reverse = 1}" : "}");
}

void check_kinds(ElementType type, const Shape& shape, const std::vector<int64_t>& bounds,
                 const std::vector<std::string>& targets = {""}) {
  const auto count = static_cast<size_t>(elements_of(shape));
  const std::string other = bounds.empty() ? "" : type == ElementType::kI1 ? "1" : "2";
  AlgebraCase exact(shape, {{type, random_buffer(type, count, 3), other}}, bounds);
  AlgebraCase sums(shape, {{type, random_buffer(type, count, 4, false), other}}, bounds);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    for (bool reverse : {false, true}) {
      for (const std::string& kind : exact_kinds(type))
        exact.apply(scan(kind, axis, reverse), {{type, shape, {0, 0, true}}});
      if (!dsl::is_float(type)) continue;
      for (const char* kind : {"sum", "prod"}) {
        sums.apply(scan(kind, axis, reverse), {{type, shape, sum_match(type, shape[axis])}});
      }
    }
  }
  exact.check(targets);
  if (dsl::is_float(type)) sums.check(targets);
}

class ScanOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(ScanOnCpu, AnyExtentOfOneAxis) {
  for (int64_t n : extents_for(GetParam())) check_kinds(GetParam(), {n}, {});
  check_kinds(GetParam(), {130}, {70});
}

TEST_P(ScanOnCpu, AnyAxisOfAnyRank) {
  check_kinds(GetParam(), shape_for(GetParam()), {});
  const std::vector<std::pair<Shape, Shape>> bounded = {{{19, 35}, {11, 30}}, {{2, 9, 17}, {2, 9, 12}}};
  for (const auto& [shape, bounds] : sampled(bounded, 1))
    check_kinds(GetParam(), shape, bounds, targets_for(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, ScanOnCpu, testing::ValuesIn(all_element_types()),
                         [](const testing::TestParamInfo<ElementType>& info) { return type_name(info.param); });

void check_regions(const Shape& shape, const std::vector<int64_t>& bounds, const std::vector<std::string>& targets) {
  const auto count = static_cast<size_t>(elements_of(shape));
  const std::string other = bounds.empty() ? "" : "3";
  AlgebraCase test(shape,
                   {{ElementType::kI32, random_buffer(ElementType::kI32, count, 1), other},
                    {ElementType::kI32, random_buffer(ElementType::kI32, count, 2), other},
                    {ElementType::kI1, tied_buffer(ElementType::kI1, static_cast<int64_t>(count), 8), ""},
                    {ElementType::kF16, tied_buffer(ElementType::kF16, static_cast<int64_t>(count), 9), ""}},
                   bounds);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    for (const char* reverse : {"", ", reverse = 1"}) {
      const std::string attrs = " {kind = custom, axis = " + std::to_string(axis) + reverse + "} ";
      const AlgebraCase::Result i32{ElementType::kI32, shape}, f16{ElementType::kF16, shape},
          i1{ElementType::kI1, shape};
      test.apply(
          "scan %x0, %x1" + attrs +
              "(%a$, %b$, %p$, %q$) {\n    %ap$ = mul %a$, %p$\n    %bp$ = mul %b$, %p$\n    %s$ = add %bp$, %q$\n"
              "    yield %ap$, %s$\n  }",
          {i32, i32});
      test.apply(
          "scan %x2, %x3" + attrs +
              "(%f$, %x$, %g$, %y$) {\n    %h$ = or %f$, %g$\n    %k$ = select %g$, %y$, %x$\n    yield %h$, %k$\n  }",
          {i1, f16});
    }
  }
  test.check(targets);
}

TEST(ScanRegionsOnCpu, NeedNotCommute) {
  for (int64_t n : {1, 2, 3, 7, 31, 33, 130, 1000}) check_regions({n}, {}, {""});
  for (const Shape& shape : {Shape{5, 1}, Shape{3, 70}, Shape{70, 3}}) check_regions(shape, {}, {""});
  check_regions({3, 35}, {2, 20}, all_targets());
  check_regions({2, 5, 3}, {2, 3, 3}, all_targets());
}

}  // namespace
}  // namespace kiln::test
