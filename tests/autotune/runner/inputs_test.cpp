// What candidates are fed with, how their outputs are compared, and which arrays are restored.
#include "inputs.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "compare.h"
#include "device.h"
#include "kiln/dsl/kernels.h"
#include "memory_use.h"
#include "runner_case.h"

namespace kiln::autotune {
namespace {

using dsl::ElementType;
using testing::HasSubstr;

std::vector<double> values(ElementType element, size_t count, const WorkloadArgument& argument = {}, uint64_t seed = 1,
                           size_t number = 0) {
  const auto size = static_cast<size_t>(dsl::info(element).bytes);
  std::vector<std::byte> bytes(count * size);
  fill_array(element, argument, seed, number, bytes);
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    if (dsl::is_float(element)) {
      out.push_back(dsl::double_from_bits(element, bits));
    } else {
      const int shift = 64 - 8 * static_cast<int>(size);
      out.push_back(dsl::info(element).is_signed ? static_cast<double>(static_cast<int64_t>(bits << shift) >> shift)
                                                 : static_cast<double>(bits));
    }
  }
  return out;
}

TEST(Inputs, FloatsAreNormalAndFinite) {
  for (ElementType element : {ElementType::kF64, ElementType::kF32, ElementType::kBF16, ElementType::kF16,
                              ElementType::kF8E4M3, ElementType::kF8E5M2}) {
    const double scale = dsl::info(element).bytes == 1 ? 0.125 : 1;
    double sum = 0, squares = 0;
    for (double value : values(element, 20000)) {
      ASSERT_TRUE(std::isfinite(value));
      sum += value / scale;
      squares += value * value / scale / scale;
    }
    EXPECT_NEAR(sum / 20000, 0, 0.03);
    EXPECT_NEAR(squares / 20000, 1, 0.05);
  }
}

TEST(Inputs, IntsAndRangesAreAsAsked) {
  const auto expect_range = [](const std::vector<double>& all, double low, double high) {
    EXPECT_EQ(*std::min_element(all.begin(), all.end()), low);
    EXPECT_EQ(*std::max_element(all.begin(), all.end()), high);
  };
  expect_range(values(ElementType::kI8, 1000), -4, 3);
  expect_range(values(ElementType::kU32, 1000), 0, 7);
  expect_range(values(ElementType::kI1, 1000), 0, 1);
  expect_range(values(ElementType::kI64, 1000, {0, 0, {{-2, 10}}}), -2, 9);
  expect_range(values(ElementType::kI32, 10, {0, 0, {{5, 5}}}), 5, 5);
  for (double value : values(ElementType::kF32, 1000, {0, 0, {{2, 3}}})) {
    EXPECT_GE(value, 2);
    EXPECT_LT(value, 3);
  }
}

TEST(Inputs, AreAFunctionOfSeedAndArray) {
  EXPECT_EQ(values(ElementType::kF32, 1000), values(ElementType::kF32, 1000));
  EXPECT_NE(values(ElementType::kF32, 1000), values(ElementType::kF32, 1000, {}, 2));
  EXPECT_NE(values(ElementType::kF32, 1000), values(ElementType::kF32, 1000, {}, 1, 1));
}

TEST(Inputs, ArraysRepeatThem) {
  auto device = open_cpu({1});
  ASSERT_TRUE(device);
  const std::vector<uint64_t> sizes = {10007};
  ASSERT_TRUE((*device)->allocate(sizes));
  std::vector<std::byte> first(4099), all(10007);
  fill_array(ElementType::kI8, {0, 0, {{-128, 128}}}, 1, 0, first);
  ASSERT_TRUE((*device)->write(0, first));
  ASSERT_TRUE((*device)->read(0, all));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], first[i % first.size()]) << i;
}

TEST(Inputs, AnArrayThatNoMemoryHoldsIsAnError) {
  const dsl::Kernel kernel = parsed("kernel k(%x: ptr<f64>) {\n}\n");
  EXPECT_EQ(array_bytes(kernel.params[0], {0, 3, {}}).value(), 24u);
  for (int64_t elements : {int64_t{-1}, INT64_MAX, int64_t{1} << 38}) {
    EXPECT_THAT(array_bytes(kernel.params[0], {0, elements, {}}).error().message, HasSubstr("parameter `x`"));
  }
}

template <class T>
std::string compare(ElementType element, const std::vector<T>& expected, const std::vector<T>& actual,
                    ElementType rounding = ElementType::kF64) {
  return compare_arrays(element, rounding, std::as_bytes(std::span(expected)), std::as_bytes(std::span(actual)));
}

TEST(Compare, IntsMustBeEqual) {
  EXPECT_EQ(compare<int32_t>(ElementType::kI32, {1, -2, 3}, {1, -2, 3}), "");
  EXPECT_EQ(compare<int32_t>(ElementType::kI32, {1, -2, 3}, {1, -7, 4}),
            "2 of 3 elements differ; at 1 it is -7, not -2");
}

TEST(Compare, SumsInAnotherOrderAreTheSame) {
  std::vector<float> a(4096), b(4096);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<float>(std::sin(static_cast<double>(i)));
    a[i] = x * 64;
    b[i] = x * 64 + (i % 2 == 0 ? 1e-4f : -1e-4f);
  }
  EXPECT_EQ(compare(ElementType::kF32, a, b), "");
}

// One tile of a large array, and a small error everywhere, as of a sum without its last term.
TEST(Compare, AWrongTileAndAMissingTermAreSeen) {
  std::vector<float> right(1 << 16);
  for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  std::vector<float> tile = right;
  for (size_t i = 0; i < 16; ++i) tile[5000 + i] = 0;
  EXPECT_THAT(compare(ElementType::kF32, right, tile), HasSubstr("16 of 65536 elements differ; at 5000 it is 0"));
  std::vector<float> term = right;
  for (float& value : term) value *= 1.0005f;
  EXPECT_THAT(compare(ElementType::kF32, right, term), HasSubstr("the norm of the difference"));
  // What was rounded to bf16 on the way may differ by that.
  EXPECT_EQ(compare(ElementType::kF32, right, term, ElementType::kBF16), "");
}

TEST(Compare, NanIsNanAndAnInfinityItself) {
  const float nan = std::nanf(""), inf = INFINITY;
  EXPECT_EQ(compare<float>(ElementType::kF32, {nan, inf, 1}, {-nan, inf, 1}), "");
  EXPECT_NE(compare<float>(ElementType::kF32, {nan, 1}, {0, 1}), "");
  EXPECT_NE(compare<float>(ElementType::kF32, {inf, 1}, {-inf, 1}), "");
  EXPECT_NE(compare<float>(ElementType::kF32, {1, 1}, {inf, 1}), "");
}

std::string use_text(const dsl::Kernel& kernel) {
  std::string out;
  const std::vector<ParamUse> use = memory_use(kernel);
  for (size_t i = 0; i < use.size(); ++i) {
    if (!kernel.params[i].type.pointer) continue;
    out += kernel.params[i].name + ":" + (use[i].read ? "r" : "") + (use[i].written ? "w" : "") + " ";
  }
  return out;
}

TEST(MemoryUse, OfTheLibrary) {
  EXPECT_EQ(use_text(*kernels::vector_add<>().ir()), "x:r y:r out:w ");
  EXPECT_EQ(use_text(*kernels::adamw<>().ir()), "p:rw g:r m:rw v:rw ");
  EXPECT_EQ(use_text(*kernels::histogram().ir()), "x:r counts:rw ");
  EXPECT_EQ(use_text(*kernels::matmul<>().ir()), "A:r B:r C:w ");
  EXPECT_EQ(use_text(*kernels::sort_rows<>().ir()), "x:r y:w ");
}

TEST(MemoryUse, FollowsPointersThroughLoops) {
  const dsl::Kernel kernel = parsed(R"(kernel k(%x: ptr<i32>, %y: ptr<i32>, %z: ptr<i32>, %n: i32) {
  %zero = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  %last, %other = for %i = %zero to %n step %one carry (%p = %x, %q = %y) {
    %next = addptr %p, %one
    yield %q, %next
  }
  %v = load %last
  store %z, %v
})");
  EXPECT_EQ(use_text(kernel), "x:r y:r z:w ");
}

TEST(MemoryUse, RoundingInsideIsTheCoarsestCast) {
  EXPECT_EQ(roughest_rounding(*kernels::vector_add<>().ir()), ElementType::kF64);
  EXPECT_EQ(roughest_rounding(*kernels::matmul<dsl::lang::bf16>().ir()), ElementType::kBF16);
}

}  // namespace
}  // namespace kiln::autotune
