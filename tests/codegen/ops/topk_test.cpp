// topk: every element type, largest and smallest, every k from one to all, along every axis; ties, zeros, NaN.
#include <cstring>
#include <random>

#include "algebra_case.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

void check_topk(ElementType type, const Shape& shape, const std::vector<int64_t>& ks,
                const std::vector<int64_t>& bounds, const std::vector<std::string>& targets = {""}) {
  const auto count = static_cast<size_t>(elements_of(shape));
  const std::string other = bounds.empty() ? "" : "1";
  for (const TestArgument& x : {random_buffer(type, count, 3), tied_buffer(type, elements_of(shape), 4)}) {
    AlgebraCase test(shape, {{type, x, other}}, bounds);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (int64_t k : ks) {
        if (k > shape[axis]) continue;
        const Shape out = with_extent(shape, axis, k);
        for (const char* largest : {"", ", largest = 0"}) {
          test.apply("topk %x0 {k = " + std::to_string(k) + ", axis = " + std::to_string(axis) + largest + "}",
                     {{type, out}, {ElementType::kI32, out}});
        }
      }
    }
    test.check(targets);
  }
}

// Top-k along the last axis, of whose indices nobody asks.
void check_elements_alone(ElementType type, const Shape& shape, const TestArgument& x) {
  const std::string name = type_name(type), axis = std::to_string(shape.size() - 1);
  const Shape out = with_extent(shape, shape.size() - 1, 30);
  for (const char* largest : {"", ", largest = 0"}) {
    TextKernel k("%x: ptr<" + name + "> readonly, %out: ptr<" + name + ">");
    const std::string tile = k.op("load " + k.pointers("%x", shape));
    k.line("%best, %places = topk " + tile + " {k = 30, axis = " + axis + largest + "}");
    k.line("store " + k.pointers("%out", out) + ", %best");
    const TestArgument room = random_buffer(type, static_cast<size_t>(elements_of(out)), 1);
    expect_same(k.text(), {{x, room}, kExact, {"", "gpu"}});
  }
}

class TopkOnCpu : public testing::TestWithParam<ElementType> {};

TEST_P(TopkOnCpu, AnyCountOfOneAxis) {
  for (int64_t n : sampled(std::vector<int64_t>{1, 2, 7, 33, 64, 130}, 2)) {
    check_topk(GetParam(), {n}, {1, n / 2 + 1, n}, {});
  }
  check_topk(GetParam(), {1000}, sampled(std::vector<int64_t>{1, 5, 300, 700, 1000}, 2), {});
  check_topk(GetParam(), {1003}, {3, 64}, {800}, targets_for(GetParam()));
}

TEST_P(TopkOnCpu, AnyAxisOfAnyRank) {
  check_topk(GetParam(), shape_for(GetParam()), {1, 2}, {});
  const std::vector<std::pair<Shape, Shape>> bounded = {{{9, 300}, {9, 290}}, {{300, 3}, {290, 3}}};
  for (const auto& [shape, bounds] : sampled(bounded, 1)) {
    check_topk(GetParam(), shape, {4}, bounds, targets_for(GetParam()));
  }
}

// On GPUs candidates of a few rows are found side by side, and of more the tile is sorted.
TEST_P(TopkOnCpu, OfFewLongRows) {
  const std::vector<Shape> shapes = {{2, 700}, {3, 512}, {2, 2, 300}, {5, 512}};
  const Shape shape = shapes[static_cast<size_t>(GetParam()) % shapes.size()];
  check_topk(GetParam(), shape, {1, 16}, {}, targets_for(GetParam()));
}

// Nobody wants to know where they came from: equal elements need nothing to tell them apart, nor from padding.
TEST_P(TopkOnCpu, OfElementsWithoutTheirPlaces) {
  for (const Shape& shape : sampled(std::vector<Shape>{{33}, {300}, {600}, {2, 600}}, 1)) {
    check_elements_alone(GetParam(), shape, tied_buffer(GetParam(), elements_of(shape), 4));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TopkOnCpu, testing::ValuesIn(all_element_types()),
                         [](const testing::TestParamInfo<ElementType>& info) { return type_name(info.param); });

// Each element is better than all before it, so that candidates are dropped again and again; or none is.
TEST(TopkOnCpu, OfOrderedElements) {
  constexpr int64_t kCount = 5000;
  std::vector<float> rising(kCount), falling(kCount), equal(kCount, 1);
  for (size_t i = 0; i < rising.size(); ++i) falling[i] = -(rising[i] = static_cast<float>(i));
  for (const auto& x : {rising, falling, equal}) {
    AlgebraCase test({kCount}, {{ElementType::kF32, buffer(x), ""}});
    for (const char* k : {"1", "64", "255", "1000"}) {
      const int64_t n = std::stoll(k);
      test.apply("topk %x0 {k = " + std::string(k) + ", axis = 0}",
                 {{ElementType::kF32, {n}}, {ElementType::kI32, {n}}});
    }
    test.check(all_targets());
  }
}

// Of wide elements words of 32 bits are told apart one after the other: none of them does it alone, or some do.
TEST(TopkOnCpu, OfElementsOfSeveralWords) {
  constexpr size_t kCount = 2 * 1024;
  using Bits = uint64_t (*)(uint64_t random, size_t i);
  const Bits all[] = {[](uint64_t random, size_t) { return random % 5000; },  // above are zeros
                      [](uint64_t random, size_t) { return random << 32; },
                      [](uint64_t random, size_t) { return random % 3 << 32 | random >> 40; },
                      [](uint64_t random, size_t i) { return i % 20 == 0 ? random : 0; },  // few that are not alike
                      [](uint64_t random, size_t) { return (random % 2 + 7) << 40; },
                      [](uint64_t, size_t) { return uint64_t{1} << 52; }};
  for (Bits bits_of : all) {
    std::mt19937_64 random(3);
    std::vector<uint64_t> bits(kCount);
    for (size_t i = 0; i < kCount; ++i) bits[i] = bits_of(random(), i);
    for (ElementType type : {ElementType::kU64, ElementType::kI64, ElementType::kF64}) {
      // Of one row and of two, by turns.
      const bool is_row = (&bits_of - all + static_cast<ptrdiff_t>(type)) % 2 == 0;
      for (const Shape& shape : {is_row ? Shape{kCount} : Shape{2, kCount / 2}}) {
        SCOPED_TRACE(type_name(type) + " " + std::to_string(&bits_of - all));
        const auto axis = static_cast<int64_t>(shape.size()) - 1;
        AlgebraCase test(shape, {{type, buffer(bits), ""}});
        for (const char* largest : {"", ", largest = 0"}) {
          const Shape out = with_extent(shape, static_cast<size_t>(axis), 60);
          const std::string topk = "topk %x0 {k = 60, axis = " + std::to_string(axis) + largest + "}";
          test.apply(topk, {{type, out}, {ElementType::kI32, out}});
        }
        test.check({"", "gpu"});
        check_elements_alone(type, shape, buffer(bits));
      }
    }
  }
}

// Of candidates the keys alone do not tell zeros of both signs, nor NaN of other bits.
TEST(TopkOnCpu, OfElementsThatKeysDoNotTell) {
  constexpr size_t kCount = 4000;
  std::vector<uint32_t> bits(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    bits[i] = i % 100 == 3 ? 0x7fc00000u + static_cast<uint32_t>(i)
              : i % 7 == 0 ? 0x80000000u
              : i % 5 == 0 ? 0u
                           : 0xbf800000u;
  }
  std::vector<float> x(kCount);
  std::memcpy(x.data(), bits.data(), 4 * kCount);
  AlgebraCase test({kCount}, {{ElementType::kF32, buffer(x), ""}});
  for (const char* largest : {"", ", largest = 0"}) {
    test.apply("topk %x0 {k = 100, axis = 0" + std::string(largest) + "}",
               {{ElementType::kF32, {100}}, {ElementType::kI32, {100}}});
  }
  test.check(all_targets());
}

}  // namespace
}  // namespace kiln::test
