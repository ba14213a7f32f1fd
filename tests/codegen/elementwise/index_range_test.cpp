// Tiles of indices near the ends of their type, behind a base that is moved as far the other way: what masks leave of
// them is in the buffers. Lanes that are masked may lie beyond the type's ends.
#include <algorithm>
#include <optional>
#include <random>

#include "differential.h"
#include "kiln/dsl/wide.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using dsl::Wide;
using Shape = TextKernel::Shape;

const ElementType kIndexTypes[] = {ElementType::kI32, ElementType::kI64, ElementType::kU32, ElementType::kU64};
constexpr int64_t kElements = 96;  // of each buffer

// Lane l is at start + l · stride, and takes part from `low` to below `high`; pointers are moved by `back`. A `low`
// that is the lowest number of all is not asked for: the other end alone may be a bound of loops on CPUs.
struct Places {
  ElementType type;
  Shape shape;
  int64_t stride;
  Wide start, low, high;
  int64_t back = 0;
  bool is_constant = false, is_flipped = false;  // bounds in the code; `high > i` in place of `i < high`
};

std::string text_of(ElementType type, Wide number) {
  return dsl::info(type).is_signed ? std::to_string(static_cast<int64_t>(number))
                                   : std::to_string(static_cast<uint64_t>(number));
}

// What `back` must be for all lanes that take part to be in the buffers, at the first `margin` or behind; nothing where
// one of them is beyond the type's ends.
std::optional<int64_t> way_back(const Places& places, int64_t lanes, int64_t margin) {
  std::optional<Wide> first;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const Wide exact = places.start + lane * places.stride;
    Wide index = exact;
    if (exact > dsl::highest(places.type)) index -= dsl::highest(places.type) - dsl::lowest(places.type) + 1;
    if (index < places.low || index >= places.high) continue;
    if (index != exact) return std::nullopt;
    if (!first) first = exact;
  }
  const Wide back = margin - first.value_or(0);
  if (back < INT64_MIN || back > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(back);
}

// y[lane] = x at the lane's index, or -7; z at the lane's index = the lane.
std::string index_text(const Places& places) {
  const std::string name(dsl::info(places.type).name);
  TextKernel k("%x: ptr<f32> readonly, %y: ptr<f32>, %z: ptr<f32>, %s: " + name + ", %a: " + name + ", %b: " + name +
               ", %o: i64");
  std::string start = "%s", low = "%a", high = "%b";
  if (places.is_constant) {
    start = k.constant(text_of(places.type, places.start), name);
    low = k.constant(text_of(places.type, places.low), name);
    high = k.constant(text_of(places.type, places.high), name);
  }
  const std::string lane = k.index(places.shape);
  std::string offset = name == "i32" ? lane : k.op("cast " + lane + " {to = " + name + "}");
  offset = k.op("mul " + offset + ", " + k.fill(std::to_string(places.stride), name, places.shape));
  const std::string i = k.op("add " + k.splat(start, places.shape) + ", " + offset);
  const std::string from = k.splat(low, places.shape), to = k.splat(high, places.shape);
  const std::string above =
      k.op(places.is_flipped ? "cmp " + from + ", " + i + " {pred = le}" : "cmp " + i + ", " + from + " {pred = ge}");
  const std::string below =
      k.op(places.is_flipped ? "cmp " + to + ", " + i + " {pred = gt}" : "cmp " + i + ", " + to + " {pred = lt}");
  const bool is_bounded = places.low > dsl::lowest(places.type);
  const std::string both = places.is_flipped ? below + ", " + above : above + ", " + below;
  const std::string mask = is_bounded ? k.op("and " + both) : below;
  const auto at = [&](const std::string& param) {
    return k.op("addptr " + k.splat(k.op("addptr " + param + ", %o"), places.shape) + ", " + i);
  };
  const std::string loaded = k.op("load " + at("%x") + ", " + mask + ", " + k.fill("-7.0", "f32", places.shape));
  k.line("store " + k.pointers("%y", places.shape) + ", " + loaded);
  k.line("store " + at("%z") + ", " + k.op("cast " + lane + " {to = f32}") + ", " + mask);
  return k.text();
}

void expect_places(const Places& places) {
  const auto scalar = [&](Wide number) { return scalar_bits(dsl::bits_from_number(places.type, number)); };
  SCOPED_TRACE(std::string(dsl::info(places.type).name) + " at " + text_of(places.type, places.start) + " from " +
               text_of(places.type, places.low) + " to below " + text_of(places.type, places.high));
  Trial run;
  run.arguments = {random_buffer(ElementType::kF32, kElements, 3, false),
                   buffer(std::vector<float>(kElements, -1)),
                   buffer(std::vector<float>(kElements, -1)),
                   scalar(places.start),
                   scalar(places.low),
                   scalar(places.high),
                   int_scalar(places.back)};
  expect_same(index_text(places), run);
}

// The last block of an array that ends where its indices do, and the first of one that begins there.
TEST(IndexRange, BlocksThatPassTheEnds) {
  for (ElementType type : kIndexTypes) {
    const Wide end = type == ElementType::kU64 ? (Wide{1} << 63) + 5 : dsl::highest(type);
    for (Places places : {Places{type, {32}, 1, end - 5, 0, end},
                          {type, {32}, 3, end - 40, 1, end - 1},
                          {type, {32}, 1, dsl::lowest(type) + 1, dsl::lowest(type) + 3, dsl::lowest(type) + 20},
                          {type, {4, 8}, 1, end - 9, end - 7, end},
                          {type, {32}, 1, end - 40, dsl::lowest(type), end - 15},
                          {type, {32}, 1, end - 40, dsl::lowest(type), dsl::lowest(type) + 2},
                          {type, {32}, 2, dsl::lowest(type) + 1, dsl::lowest(type), end - 2}}) {
      const auto back = way_back(places, 32, 2);
      if (!back) continue;  // no pointer is moved so far
      places.back = *back;
      expect_places(places);
    }
  }
}

// What a mask compares is no index: it may wrap, and lanes beyond the end of its type take part again.
TEST(IndexRange, NumbersOfMasksMayWrap) {
  for (int64_t start : {INT32_MAX - 50, 3}) {
    TextKernel k("%x: ptr<f32> readonly, %y: ptr<f32>, %s: i32, %b: i32");
    const Shape shape = {200};
    const std::string i = k.op("add " + k.splat("%s", shape) + ", " + k.along(shape, 0));
    const std::string mask = k.op("cmp " + i + ", " + k.splat("%b", shape) + " {pred = lt}");
    k.line("store " + k.pointers("%y", shape) + ", " + k.op("load " + k.pointers("%x", shape) + ", " + mask));
    Trial run;
    run.arguments = {random_buffer(ElementType::kF32, 200, 3, false), buffer(std::vector<float>(200, -1)),
                     int_scalar(start), int_scalar(10)};
    expect_same(k.text(), run);
  }
}

TEST(IndexRange, RandomPlaces) {
  std::mt19937_64 random(11);
  const auto pick = [&](uint64_t below) { return static_cast<int64_t>(random() % below); };
  int made = 0, tries = 0;
  while (made < 40 && ++tries < 10000) {
    Places places{
        .type = kIndexTypes[pick(4)], .shape = {1 + pick(40)}, .stride = 1 + pick(2), .start = 0, .low = 0, .high = 0};
    if (pick(3) == 0) places.shape = {1 + pick(5), 1 + pick(8)};
    const int64_t lanes = places.shape[0] * (places.shape.size() > 1 ? places.shape[1] : 1);
    const Wide least = dsl::lowest(places.type), most = dsl::highest(places.type);
    const Wide ends[] = {least, 0, (most >> 1) + 1, most};
    const auto near = [&](Wide place, int64_t reach) {
      return std::clamp(place + pick(2 * reach + 1) - reach, least, most);
    };
    places.start = near(ends[pick(4)], 2 * lanes);
    places.low = pick(2) ? least : near(pick(2) ? places.start : ends[pick(4)], 12);
    places.high = near(pick(2) ? places.start + lanes : ends[pick(4)], 12);
    places.is_constant = pick(3) == 0;
    places.is_flipped = pick(2) == 0;
    const auto back = way_back(places, lanes, pick(4));
    const bool is_empty = places.low >= places.high;
    if (!back || (is_empty && pick(3) != 0)) continue;
    places.back = *back;
    expect_places(places);
    ++made;
  }
  EXPECT_EQ(made, 40);
}

}  // namespace
}  // namespace kiln::test
