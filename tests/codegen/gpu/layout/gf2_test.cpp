#include "gpu/layout/gf2.h"

#include <gtest/gtest.h>

#include <set>

#include "random_layout.h"

namespace kiln::codegen::gpu {
namespace {

std::set<Bits> members(const Columns& vectors) {
  std::set<Bits> out;
  for (Bits i = 0; i < Bits{1} << vectors.size(); ++i) out.insert(multiply(vectors, i));
  return out;
}

Columns random_vectors(Random& random, int bits, int most) {
  Columns out;
  for (int count = pick(random, 0, most); count > 0; --count) out.push_back(random() & ((Bits{1} << bits) - 1));
  return out;
}

TEST(Gf2, SpanHasTheSumsOfItsVectors) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const Columns vectors = random_vectors(random, 6, 5);
    const Span span(vectors);
    const std::set<Bits> sums = members(vectors);
    EXPECT_EQ(sums.size(), size_t{1} << span.rank());
    for (Bits vector = 0; vector < 64; ++vector) {
      EXPECT_EQ(span.contains(vector), sums.contains(vector));
      const std::optional<Bits> made_of = span.solve(vector);
      ASSERT_EQ(made_of.has_value(), sums.contains(vector));
      if (made_of) {
        EXPECT_EQ(multiply(vectors, *made_of), vector);
      }
      for (Bits sum : sums) EXPECT_EQ(span.reduce(vector), span.reduce(vector ^ sum));
    }
  }
}

TEST(Gf2, SolutionsPreferTheFirstVectors) {
  const Span span({0b01, 0b10, 0b11, 0b01});
  EXPECT_EQ(span.solve(0b11), Bits{0b0011});
  EXPECT_EQ(span.solve(0b01), Bits{0b0001});
}

TEST(Gf2, KernelIsWhatGoesToZero) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const Columns matrix = random_vectors(random, 5, 7);
    std::set<Bits> zero;
    for (Bits i = 0; i < Bits{1} << matrix.size(); ++i) {
      if (multiply(matrix, i) == 0) zero.insert(i);
    }
    EXPECT_EQ(members(kernel(matrix)), zero);
  }
}

TEST(Gf2, IntersectionIsWhatBothHave) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const Columns a = random_vectors(random, 7, 5), b = random_vectors(random, 7, 5);
    const Columns modulo = round % 2 ? random_vectors(random, 7, 3) : Columns{};
    // The classes modulo `modulo` that have members of both.
    const Span zero(modulo);
    const auto classes = [&](const Columns& vectors) {
      std::set<Bits> out;
      for (Bits vector : members(vectors)) out.insert(zero.reduce(vector));
      return out;
    };
    std::set<Bits> both;
    for (Bits vector : classes(a)) {
      if (classes(b).contains(vector)) both.insert(vector);
    }
    const Columns found = intersection(a, b, modulo);
    EXPECT_EQ(classes(found), both);
    EXPECT_EQ(size_t{1} << found.size(), both.size());
    for (Bits vector : found) EXPECT_TRUE(Span(a).contains(vector));
  }
}

TEST(Gf2, CompletionsAreNewAndReachAllCandidates) {
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    const Columns have = random_vectors(random, 7, 4), candidates = random_vectors(random, 7, 6);
    const Columns fresh = completion(have, candidates);
    Span all(have);
    for (Bits vector : fresh) EXPECT_TRUE(all.insert(vector));
    for (Bits vector : candidates) EXPECT_TRUE(all.contains(vector));
  }
}

}  // namespace
}  // namespace kiln::codegen::gpu
