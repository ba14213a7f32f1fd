// Shape ops, reductions and scans on small arrays whose results NumPy prints, and combines that do not commute.
#include "reference/arrays.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>

#include "reference/inputs.h"
#include "reference/lines.h"

namespace kiln::reference {
namespace {

using Ints = Array<int>;

TEST(ReferenceArrays, PermuteReshapeBroadcast) {
  const Ints a = counting<int>({2, 3});
  EXPECT_EQ(permute(a, {1, 0}), (Ints{{3, 2}, {0, 3, 1, 4, 2, 5}}));
  // numpy.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)[3] is [[3, 7, 11], [15, 19, 23]].
  const Ints turned = permute(counting<int>({2, 3, 4}), {2, 0, 1});
  EXPECT_EQ(turned.shape, (Shape{4, 2, 3}));
  EXPECT_EQ(slice(turned, {3, 0, 0}, {4, 2, 3}).data, (std::vector<int>{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(reshape(a, {3, 2}), (Ints{{3, 2}, {0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(expand_dims(a, 2).shape, (Shape{2, 3, 1}));
  EXPECT_EQ(broadcast(Ints{{2, 1}, {7, 8}}, {2, 3}), (Ints{{2, 3}, {7, 7, 7, 8, 8, 8}}));
  EXPECT_EQ(counting<int>({}), (Ints{{}, {0}}));
}

TEST(ReferenceArrays, CatJoinSplitInterleave) {
  const Ints a{{2, 2}, {0, 1, 2, 3}}, b{{2, 1}, {8, 9}};
  EXPECT_EQ(cat(a, b, 1), (Ints{{2, 3}, {0, 1, 8, 2, 3, 9}}));
  EXPECT_EQ(cat(a, Ints{{1, 2}, {8, 9}}, 0), (Ints{{3, 2}, {0, 1, 2, 3, 8, 9}}));
  const Ints c{{2, 2}, {4, 5, 6, 7}};
  EXPECT_EQ(join(a, c), (Ints{{2, 2, 2}, {0, 4, 1, 5, 2, 6, 3, 7}}));
  EXPECT_EQ(split(join(a, c)), (std::pair<Ints, Ints>{a, c}));
  EXPECT_EQ(interleave(a, c), (Ints{{2, 4}, {0, 4, 1, 5, 2, 6, 3, 7}}));
  EXPECT_EQ(interleave(a, c), reshape(join(a, c), {2, 4}));
  EXPECT_EQ(join(Ints{{}, {1}}, Ints{{}, {2}}), (Ints{{2}, {1, 2}}));
}

TEST(ReferenceArrays, SliceFlipGather) {
  const Ints a = counting<int>({3, 4});
  EXPECT_EQ(slice(a, {1, 0}, {3, 4}, {1, 3}), (Ints{{2, 2}, {4, 7, 8, 11}}));
  EXPECT_EQ(flip(a, 1).data, (std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}));
  EXPECT_EQ(flip(flip(a, 0), 0), a);
  // numpy.take_along_axis
  EXPECT_EQ(gather(a, Ints{{3, 2}, {0, 3, 1, 1, 2, 0}}, 1), (Ints{{3, 2}, {0, 3, 5, 5, 10, 8}}));
  EXPECT_EQ(gather(a, Ints{{1, 4}, {2, 0, 1, 2}}, 0), (Ints{{1, 4}, {8, 1, 6, 11}}));
}

TEST(ReferenceLines, AlongEachAxis) {
  const Ints a = counting<int>({2, 3, 2});
  const auto sum = [](const std::vector<int>& line) { return std::accumulate(line.begin(), line.end(), 0); };
  EXPECT_EQ(reduce_lines(a, 0, sum), (Ints{{3, 2}, {6, 8, 10, 12, 14, 16}}));
  EXPECT_EQ(reduce_lines(a, 1, sum), (Ints{{2, 2}, {6, 9, 24, 27}}));
  EXPECT_EQ(reduce_lines(a, 2, sum), (Ints{{2, 3}, {1, 5, 9, 13, 17, 21}}));
  EXPECT_EQ(reduce_lines(Ints{{3}, {1, 2, 3}}, 0, sum), (Ints{{}, {6}}));
  const auto running = [](const std::vector<int>& line) { return scan(line, std::plus<int>()); };
  EXPECT_EQ(map_lines(a, 1, running), (Ints{{2, 3, 2}, {0, 1, 2, 4, 6, 9, 6, 7, 14, 16, 24, 27}}));
  const auto ends = [](const std::vector<int>& line) { return std::vector<int>{line.front(), line.back()}; };
  EXPECT_EQ(map_lines(a, 1, ends), (Ints{{2, 2, 2}, {0, 1, 4, 5, 6, 7, 10, 11}}));
}

// Strings show the order of every combination.
TEST(ReferenceLines, OrderOfCombination) {
  const std::vector<std::string> line{"a", "b", "c", "d"};
  const auto glue = [](const std::string& x, const std::string& y) { return "(" + x + y + ")"; };
  EXPECT_EQ(reduce(line, glue), "(((ab)c)d)");
  EXPECT_EQ(scan(line, glue), (std::vector<std::string>{"a", "(ab)", "((ab)c)", "(((ab)c)d)"}));
  EXPECT_EQ(scan(line, glue, true), (std::vector<std::string>{"(((dc)b)a)", "((dc)b)", "(dc)", "d"}));
  EXPECT_EQ(reduce(std::vector<int>{5}, std::minus<int>()), 5);
}

// x ↦ m·x + c, composed so that the left one is applied first: associative, and does not commute.
struct Affine {
  uint64_t m, c;
  bool operator==(const Affine&) const = default;
};
Affine then(Affine a, Affine b) { return {a.m * b.m, a.c * b.m + b.c}; }

using Matrix = std::array<uint64_t, 4>;
Matrix times(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}

TEST(ReferenceLines, CombinesThatDoNotCommute) {
  std::vector<Affine> maps;
  for (const Bits bits : random_elements(Type::kU64, 37, 1)) maps.push_back({bits | 1, bits >> 7});
  const std::vector<Affine> forward = scan(maps, then), backward = scan(maps, then, true);
  EXPECT_EQ(forward.back(), reduce(maps, then));
  uint64_t x = 3, y = 3;
  for (size_t i = 0; i < maps.size(); ++i) {
    const Affine& last = maps[maps.size() - 1 - i];
    x = maps[i].m * x + maps[i].c;
    y = last.m * y + last.c;
    EXPECT_EQ(forward[i].m * 3 + forward[i].c, x);
    const Affine& reversed = backward[maps.size() - 1 - i];
    EXPECT_EQ(reversed.m * 3 + reversed.c, y);
  }
  // Powers of [[1, 1], [1, 0]] hold the Fibonacci numbers.
  EXPECT_EQ(reduce(std::vector<Matrix>(20, Matrix{1, 1, 1, 0}), times)[1], 6765u);
}

}  // namespace
}  // namespace kiln::reference
