// sort, topk, histogram and philox against the reference's order and words.
#include "reference/inputs.h"
#include "reference/lines.h"
#include "reference/order.h"
#include "reference/random.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

using BitLine = std::vector<Bits>;
using Positions = std::vector<size_t>;

const std::vector<Shape>& all_shapes() {
  static const std::vector<Shape> shapes = {{1}, {2}, {3}, {17}, {64}, {3, 5}, {9, 1}, {1, 9}, {2, 7, 3}, {2, 3, 1, 5}};
  return shapes;
}

// Keys with many ties and specials: random ones, and of floats ±0, NaNs of several bits and infinities.
Input keys_of(Type type, const Shape& shape, uint64_t seed) {
  Input keys = random_input(type, shape, seed);
  const std::vector<Bits> some = reference::random_elements(type, 5, seed + 1000);
  for (size_t i = 0; i < keys.tile.data.size(); i += 2) keys.tile.data[i] = some[i / 2 % some.size()];
  return keys;
}

// The elements of `tile` along an axis at the positions that `order` makes of the lines of `keys`.
template <class Order>
Tile moved(const Tile& keys, const Tile& tile, size_t axis, Order order) {
  const auto positions = reference::map_lines(keys, axis, order);
  return reference::gather(tile, positions, axis);
}

// Bit for bit, but for NaNs; -0 and +0 are told apart, since a stable sort keeps their order.
void check_sort(Type type, Type value_type) {
  uint64_t seed = 1;
  for (const Shape& shape : all_shapes()) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (const bool descending : {false, true}) {
        const Input keys = keys_of(type, shape, ++seed), values = random_input(value_type, shape, seed + 77);
        const auto order = [&](const BitLine& line) { return reference::sort_order(type, line, descending); };
        const std::string attrs = " {axis = " + std::to_string(axis) + ", descending = " + (descending ? "1}" : "0}");
        const Tile sorted = moved(keys.tile, keys.tile, axis, order);
        expect_same(type, run_tile("%z0 = sort %x0" + attrs, {keys}, {type, shape}), sorted, "sort of " + list(shape));
        const Ran ran =
            run_tiles("%z0, %z1 = sort %x0, %x1" + attrs, {keys, values}, {{type, shape}, {value_type, shape}});
        ASSERT_EQ(ran.error, "");
        expect_same(type, ran.out[0], sorted, "keys of " + list(shape));
        expect_same(value_type, ran.out[1], moved(keys.tile, values.tile, axis, order), "values of " + list(shape));
      }
    }
  }
}

TEST(AlgebraOrder, SortIsStableEitherWayAndValuesMoveWithTheirKeys) {
  size_t turn = 0;
  for (const Type type : reference::kAllTypes) {
    check_sort(type, *(reference::kAllTypes.begin() + (++turn * 4) % reference::kAllTypes.size()));
  }
}

TEST(AlgebraOrder, SortPutsNanAboveInfinityAndKeepsZerosInPlace) {
  const std::vector<Bits> keys = {0x7fc00000, 0x00000000, 0x80000000, 0x7f800000, 0xffc00000,
                                  0xff800000, 0x80000000, 0x00000000, 0x3f800000, 0x7fa00001};
  std::vector<Bits> index;
  for (Bits i = 0; i < keys.size(); ++i) index.push_back(i);
  const Input x = {Type::kF32, {{10}, keys}}, i = {Type::kI32, {{10}, index}};
  const auto order = [&](const std::string& attrs) {
    return run_tiles("%z0, %z1 = sort %x0, %x1 " + attrs, {x, i}, {{Type::kF32, {10}}, {Type::kI32, {10}}})
        .out.at(1)
        .data;
  };
  EXPECT_EQ(order("{axis = 0}"), (std::vector<Bits>{5, 1, 2, 6, 7, 8, 3, 0, 4, 9}));
  EXPECT_EQ(order("{axis = 0, descending = 1}"), (std::vector<Bits>{0, 4, 9, 3, 8, 1, 2, 6, 7, 5}));
}

TEST(AlgebraOrder, TopkGivesTheLargestOrSmallestInOrderAndTheLowestIndicesOfTies) {
  for (const Type type : reference::kAllTypes) {
    uint64_t seed = 500;
    for (const Shape& shape : all_shapes()) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        for (const bool largest : {true, false}) {
          for (const int64_t k : {int64_t{1}, (shape[axis] + 1) / 2, shape[axis]}) {
            const Input x = keys_of(type, shape, ++seed);
            const auto positions = reference::map_lines(x.tile, axis, [&](const BitLine& line) {
              return reference::topk(type, line, static_cast<size_t>(k), largest);
            });
            const std::string line = "%z0, %z1 = topk %x0 {k = " + std::to_string(k) +
                                     ", axis = " + std::to_string(axis) + ", largest = " + (largest ? "1}" : "0}");
            const Ran ran = run_tiles(line, {x}, {{type, positions.shape}, {Type::kI32, positions.shape}});
            ASSERT_EQ(ran.error, "") << line;
            expect_same(type, ran.out[0], reference::gather(x.tile, positions, axis), line);
            const Tile indices = {positions.shape, {positions.data.begin(), positions.data.end()}};
            expect_same(Type::kI32, ran.out[1], indices, line);
          }
        }
      }
    }
  }
}

TEST(AlgebraOrder, HistogramCountsWhatLiesInItsBinsAndIgnoresTheRest) {
  for (const Type type : reference::kIntTypes) {
    for (const size_t bins : {1, 2, 7, 16, 200}) {
      for (const Shape& shape : {Shape{1}, Shape{37}, Shape{5, 13}, Shape{2, 3, 1, 4, 3}}) {
        Input x = random_input(type, shape, 9 + bins);
        // Half of them near the bins, on either side.
        const std::vector<Bits> near =
            reference::random_ints(type, reference::count(shape), reference::is_signed(type) ? -3 : 0,
                                   std::min<int64_t>(static_cast<int64_t>(bins) + 3, 120), bins);
        for (size_t i = 0; i < near.size(); i += 2) x.tile.data[i] = near[i];
        Tile expected{{static_cast<int64_t>(bins)}, {}};
        for (const int64_t count : reference::histogram(type, x.tile.data, bins)) {
          expected.data.push_back(static_cast<Bits>(count));
        }
        expect_same(
            Type::kI32,
            run_tile("%z0 = histogram %x0 {bins = " + std::to_string(bins) + "}", {x}, {Type::kI32, expected.shape}),
            expected, type_name(type) + " in " + std::to_string(bins) + " bins");
      }
    }
  }
}

Ran run_philox(const std::vector<Bits>& seeds, const std::vector<Bits>& offsets) {
  const Shape shape = {static_cast<int64_t>(seeds.size())};
  return run_tiles("%z0, %z1, %z2, %z3 = philox %x0, %x1",
                   {{Type::kU64, {shape, seeds}}, {Type::kU64, {shape, offsets}}},
                   std::vector<Output>(4, {Type::kU32, shape}));
}

TEST(AlgebraPhilox, KnownAnswers) {
  const std::vector<Bits> seeds = {0, 42, 42, 0xfcafeb0ba, 0x299f31d0a4093822},
                          offsets = {0, 0, 1, 0, 0x85a308d3243f6a88};
  const std::vector<std::vector<Bits>> words = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                                {0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7},
                                                {0xfcdb2127, 0x53ba6cfd, 0x838f5a6e, 0x744e06fb},
                                                {0xf219fb5b, 0xbe9182a4, 0xf573a172, 0x3952307c},
                                                {0xe69c9c31, 0xb5a3d762, 0xe733bfc1, 0x341a787c}};
  const Ran ran = run_philox(seeds, offsets);
  ASSERT_EQ(ran.error, "");
  for (size_t i = 0; i < seeds.size(); ++i) {
    for (size_t word = 0; word < 4; ++word) EXPECT_EQ(ran.out[word].data[i], words[i][word]) << i;
  }
}

TEST(AlgebraPhilox, RandomSeedsAndOffsetsOf64Bits) {
  std::vector<Bits> seeds = reference::random_bits(Type::kU64, 2000, 1),
                    offsets = reference::random_bits(Type::kU64, 2000, 2);
  // And ends of the halves.
  for (const Bits end : {Bits{0}, Bits{0xffffffff}, Bits{0x100000000}, ~Bits{0}, Bits{1} << 63}) {
    seeds.push_back(end);
    offsets.push_back(1);
    seeds.push_back(7);
    offsets.push_back(end);
  }
  const Ran ran = run_philox(seeds, offsets);
  ASSERT_EQ(ran.error, "");
  for (size_t i = 0; i < seeds.size(); ++i) {
    const reference::Counter words = reference::philox(seeds[i], offsets[i]);
    for (size_t word = 0; word < 4; ++word)
      ASSERT_EQ(ran.out[word].data[i], words[word]) << seeds[i] << " " << offsets[i];
  }
}

}  // namespace
}  // namespace kiln::oracle
