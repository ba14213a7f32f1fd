// Ops that move elements and change none: every bit of every type arrives, at all ranks.
#include "reference/arrays.h"
#include "reference/inputs.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

// Ranks 0 to 5, with odd extents and extents of 1.
const std::vector<Shape>& all_shapes() {
  static const std::vector<Shape> shapes = {{},
                                            {1},
                                            {7},
                                            {33},
                                            {3, 5},
                                            {1, 9},
                                            {5, 1},
                                            {2, 3, 5},
                                            {1, 1, 1},
                                            {3, 1, 4},
                                            {2, 3, 1, 5},
                                            {1, 3, 2, 2},
                                            {7, 2, 3},
                                            {17, 3},
                                            {2, 1, 3, 2},
                                            {1, 2, 3, 2, 3},
                                            {3, 1, 1, 2, 1}};
  return shapes;
}

Input bits_input(Type type, const Shape& shape, uint64_t seed) {
  return {type, {shape, reference::random_bits(type, reference::count(shape), seed)}};
}

std::string attrs(const std::string& name, const std::vector<int64_t>& numbers) {
  return " {" + name + " = " + list(numbers) + "}";
}

TEST(AlgebraShape, ReshapeKeepsRowMajorOrderAtAllRanksAndTypes) {
  const std::vector<std::vector<Shape>> groups = {
      {{}, {1}, {1, 1}, {1, 1, 1, 1, 1}},
      {{105}, {3, 35}, {5, 3, 7}, {1, 7, 5, 3}, {3, 1, 5, 1, 7}, {105, 1}},
      {{64}, {2, 32}, {2, 2, 2, 2, 4}, {8, 8}},
  };
  for (const Type type : reference::kAllTypes) {
    for (const auto& group : groups) {
      for (const Shape& from : group) {
        for (const Shape& to : group) {
          const Input x = bits_input(type, from, 1);
          expect_same(type, run_tile("%z0 = reshape %x0" + attrs("shape", to), {x}, {type, to}),
                      reference::reshape(x.tile, to), "reshape " + list(from) + " to " + list(to));
        }
      }
    }
  }
}

TEST(AlgebraShape, PermuteAxisIOfTheResultIsAxisOrderIOfTheOperand) {
  uint64_t seed = 0;
  for (const Shape& shape : all_shapes()) {
    std::vector<size_t> order(shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    do {
      const Type type = *(reference::kAllTypes.begin() + seed++ % reference::kAllTypes.size());
      const Input x = bits_input(type, shape, seed);
      const Tile expected = reference::permute(x.tile, order);
      const std::vector<int64_t> numbers(order.begin(), order.end());
      expect_same(type, run_tile("%z0 = permute %x0" + attrs("order", numbers), {x}, {type, expected.shape}), expected,
                  "permute " + list(shape) + " by " + list(numbers));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// The pointers move; what they point at shows where they went.
TEST(AlgebraShape, ReshapePermuteBroadcastAndSliceMovePointersToo) {
  const Input x = bits_input(Type::kF16, {30}, 3);
  const std::string lines = R"(%i = arange {start = 0, end = 15}
%s = splat %p0 {shape = [15]}
%a = addptr %s, %i
%b = reshape %a {shape = [3, 1, 5]}
%c = permute %b {order = [2, 1, 0]}
%d = broadcast %c {shape = [5, 2, 3]}
%e = slice %d {axis = 0, start = 1, end = 4}
%f = cat %e, %e {axis = 2}
%g = expand_dims %f {axis = 0}
%z0 = load %g)";
  const Tile base{{15}, {x.tile.data.begin(), x.tile.data.begin() + 15}};
  Tile expected = reference::broadcast(reference::permute(reference::reshape(base, {3, 1, 5}), {2, 1, 0}), {5, 2, 3});
  expected = reference::slice(expected, {1, 0, 0}, {4, 2, 3});
  expected = reference::expand_dims(reference::cat(expected, expected, 2), 0);
  expect_same(Type::kF16, run_tile(lines, {x}, {Type::kF16, expected.shape}), expected, "pointers");
}

TEST(AlgebraShape, BroadcastRepeatsAxesOfExtent1) {
  for (const Type type : reference::kAllTypes) {
    const std::vector<std::pair<Shape, Shape>> cases = {{{}, {}},
                                                        {{1}, {5}},
                                                        {{3}, {3}},
                                                        {{1, 3}, {5, 3}},
                                                        {{5, 1}, {5, 3}},
                                                        {{1, 1}, {7, 3}},
                                                        {{2, 1, 3}, {2, 5, 3}},
                                                        {{1, 3, 1, 2}, {3, 3, 5, 2}},
                                                        {{1, 2, 1, 1, 3}, {3, 2, 1, 5, 3}}};
    for (const auto& [from, to] : cases) {
      const Input x = bits_input(type, from, 4);
      expect_same(type, run_tile("%z0 = broadcast %x0" + attrs("shape", to), {x}, {type, to}),
                  reference::broadcast(x.tile, to), "broadcast " + list(from) + " to " + list(to));
    }
  }
}

TEST(AlgebraShape, ExpandDimsInsertsBeforeAnyAxis) {
  for (const Shape& shape : all_shapes()) {
    if (shape.size() == 5) continue;
    for (size_t axis = 0; axis <= shape.size(); ++axis) {
      const Input x = bits_input(Type::kF64, shape, 5);
      const Tile expected = reference::expand_dims(x.tile, axis);
      expect_same(
          Type::kF64,
          run_tile("%z0 = expand_dims %x0 {axis = " + std::to_string(axis) + "}", {x}, {Type::kF64, expected.shape}),
          expected, "expand_dims " + list(shape));
    }
  }
}

TEST(AlgebraShape, JoinStandsSideBySideAndSplitUndoesIt) {
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : all_shapes()) {
      if (shape.size() == 5) continue;
      const Input a = bits_input(type, shape, 6), b = bits_input(type, shape, 7);
      const Tile joined = reference::join(a.tile, b.tile);
      expect_same(type, run_tile("%z0 = join %x0, %x1", {a, b}, {type, joined.shape}), joined, "join");
      const Ran ran = run_tiles("%z0, %z1 = split %x0", {{type, joined}}, {{type, shape}, {type, shape}});
      ASSERT_EQ(ran.error, "");
      expect_same(type, ran.out[0], a.tile, "first half");
      expect_same(type, ran.out[1], b.tile, "second half");
    }
  }
}

TEST(AlgebraShape, CatPutsBBehindAAlongAnyAxis) {
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : all_shapes()) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const Input a = bits_input(type, shape, 8);
        const Input b = bits_input(type, reference::with_extent(shape, axis, 3), 9);
        const Tile expected = reference::cat(a.tile, b.tile, axis);
        expect_same(
            type, run_tile("%z0 = cat %x0, %x1 {axis = " + std::to_string(axis) + "}", {a, b}, {type, expected.shape}),
            expected, "cat " + list(shape));
      }
    }
  }
}

TEST(AlgebraShape, SliceTakesStartToEndAlongAnyAxis) {
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : {Shape{7}, Shape{1}, Shape{5, 7}, Shape{3, 1, 5}, Shape{2, 5, 1, 3, 2}}) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const int64_t extent = shape[axis];
        for (const auto& [start, end] : {std::pair<int64_t, int64_t>{0, extent},
                                         {0, 1},
                                         {extent - 1, extent},
                                         {extent / 2, extent / 2 + 1},
                                         {extent / 3, extent}}) {
          const Input x = bits_input(type, shape, 10);
          Shape starts(shape.size(), 0), ends = shape;
          starts[axis] = start;
          ends[axis] = end;
          const Tile expected = reference::slice(x.tile, starts, ends);
          const std::string line = "%z0 = slice %x0 {axis = " + std::to_string(axis) +
                                   ", start = " + std::to_string(start) + ", end = " + std::to_string(end) + "}";
          expect_same(type, run_tile(line, {x}, {type, expected.shape}), expected, line);
        }
      }
    }
  }
}

TEST(AlgebraShape, GatherReadsAtItsIndicesAlongAnyAxisWithIndicesOfAnyInt) {
  size_t turn = 0;
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : {Shape{7}, Shape{1}, Shape{5, 7}, Shape{3, 1, 5}, Shape{2, 5, 1, 3, 2}}) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        // Fewer, as many and more indices than elements.
        for (const int64_t indices : {int64_t{1}, shape[axis], 2 * shape[axis] + 1}) {
          const Type index_type = *(reference::kIntTypes.begin() + turn++ % reference::kIntTypes.size());
          const Input x = bits_input(type, shape, 11);
          const Shape index_shape = reference::with_extent(shape, axis, indices);
          const Input index = {index_type,
                               {index_shape, reference::random_ints(index_type, reference::count(index_shape), 0,
                                                                    shape[axis] - 1, turn)}};
          expect_same(
              type,
              run_tile("%z0 = gather %x0, %x1 {axis = " + std::to_string(axis) + "}", {x, index}, {type, index_shape}),
              reference::gather(x.tile, index.tile, axis), "gather " + list(shape));
        }
      }
    }
  }
}

TEST(AlgebraShape, ArangeCountsFromStartToEndOfAnyLength) {
  for (const auto& [start, end] : {std::pair<int64_t, int64_t>{0, 1},
                                   {0, 7},
                                   {-3, 4},
                                   {5, 6},
                                   {-9, -8},
                                   {0, 257},
                                   {2147483640, 2147483647},
                                   {-2147483648, -2147483645}}) {
    Tile expected{{end - start}, {}};
    for (int64_t i = start; i < end; ++i) expected.data.push_back(static_cast<uint32_t>(i));
    const std::string line = "%z0 = arange {start = " + std::to_string(start) + ", end = " + std::to_string(end) + "}";
    expect_same(Type::kI32, run_tile(line, {}, {Type::kI32, expected.shape}), expected, line);
  }
}

TEST(AlgebraShape, SplatFillsATileOfAnyRankAndType) {
  for (const Type type : reference::kAllTypes) {
    for (const Shape& shape : all_shapes()) {
      const Input x = bits_input(type, {}, 12 + shape.size());
      const Tile expected = reference::generate<Bits>(shape, [&](const Shape&) { return x.tile.data[0]; });
      expect_same(type, run_tile("%z0 = splat %x0" + attrs("shape", shape), {x}, {type, shape}), expected, "splat");
    }
  }
}

TEST(AlgebraShape, AnEmptyExtentIsRefusedByName) {
  for (const std::string line :
       {"%z0 = arange {start = 3, end = 3}", "%z0 = splat %p0 {shape = [2, 0]}", "%z0 = reshape %x0 {shape = [0]}",
        "%z0 = broadcast %x0 {shape = [0]}", "%z0 = slice %x0 {axis = 0, start = 1, end = 1}",
        "%z0 = histogram %x0 {bins = 0}", "%z0, %y = topk %x0 {k = 0, axis = 0}"}) {
    const Ran ran = run_tiles(line, {bits_input(Type::kI32, {4}, 1)}, {{Type::kI32, {4}}});
    const std::string op =
        line.substr(line.find('=') + 2, line.find_first_of(" ", line.find('=') + 2) - line.find('=') - 2);
    EXPECT_NE(ran.error.find(op + ":"), std::string::npos) << line << "\n" << ran.error;
    EXPECT_NE(ran.error.find("k.kiln:"), std::string::npos) << line << "\n" << ran.error;
  }
}

}  // namespace
}  // namespace kiln::oracle
