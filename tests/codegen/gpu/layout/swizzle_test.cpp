#include "gpu/layout/swizzle.h"

#include <gtest/gtest.h>

#include "random_layout.h"

namespace kiln::codegen::gpu {
namespace {

Columns random_subspace(Random& random, int bits, int rank) {
  Columns out = random_invertible(random, bits);
  out.resize(static_cast<size_t>(rank));
  return out;
}

// A line of b bits of n has room for b dimensions of lanes; what is more has to conflict, and no more does. On both
// sides.
TEST(Swizzle, HasAsFewConflictsAsThereCanBe) {
  Random random(1);
  int conflicting = 0;
  for (int round = 0; round < 2000; ++round) {
    const int bits = pick(random, 1, 12), line = pick(random, 0, 7);
    const SwizzleRequest request{unit_vectors(bits),
                                 {},
                                 0,
                                 line,
                                 random_subspace(random, bits, pick(random, 0, bits)),
                                 random_subspace(random, bits, pick(random, 0, bits))};
    const Columns swizzle = choose_swizzle(request);
    ASSERT_EQ(Span(swizzle).rank(), bits);
    ASSERT_EQ(std::ssize(swizzle), bits);
    for (const Columns* lanes : {&request.stores, &request.loads}) {
      const int64_t needed = int64_t{1} << std::max<int64_t>(0, std::ssize(*lanes) - line);
      EXPECT_EQ(bank_conflicts(swizzle, *lanes, 0, line), needed);
      conflicting += needed > 1;
    }
  }
  EXPECT_GT(conflicting, 200);
}

TEST(Swizzle, KeepsTheVectorTogether) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const int bits = pick(random, 5, 12), lane_bits = pick(random, 0, 3);
    const Columns mixed = random_invertible(random, bits);
    const Columns vector(mixed.begin(), mixed.begin() + 2), lanes(mixed.begin() + 2, mixed.begin() + 2 + lane_bits);
    // Neighbouring vectors to store, others to load, no more than fill a line.
    Columns others = completion(vector, random_subspace(random, bits, bits));
    others.resize(static_cast<size_t>(lane_bits));
    const Columns swizzle = choose_swizzle({unit_vectors(bits), vector, 1, 5, lanes, others});
    ASSERT_EQ(Span(swizzle).rank(), bits);
    EXPECT_EQ(Columns(swizzle.begin(), swizzle.begin() + 2), vector);
    EXPECT_EQ(bank_conflicts(swizzle, lanes, 2, 5), 1);
    EXPECT_EQ(bank_conflicts(swizzle, others, 2, 5), 1);
  }
}

// Rows of 32 words: lanes down a column meet in one bank.
TEST(Swizzle, WithoutOneAColumnIsOneBank) {
  const Columns plain = unit_vectors(10), column = {32, 64, 128, 256, 512}, row = {1, 2, 4, 8, 16};
  EXPECT_EQ(bank_conflicts(plain, column, 0, 5), 32);
  EXPECT_EQ(bank_conflicts(plain, row, 0, 5), 1);
  const Columns swizzle = choose_swizzle({plain, {}, 0, 5, row, column});
  EXPECT_EQ(bank_conflicts(swizzle, column, 0, 5), 1);
  EXPECT_EQ(bank_conflicts(swizzle, row, 0, 5), 1);
}

}  // namespace
}  // namespace kiln::codegen::gpu
