#include "gpu/layout/layout.h"

#include <gtest/gtest.h>

#include "gpu/layout/algebra.h"
#include "random_layout.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kRounds = 300;

TEST(Layout, BlockedTilesGoRegistersThenLanesThenWarps) {
  const Layout layout = blocked({8, 16}, {1, 2}, {4, 8}, {2, 1}, {1, 0});
  EXPECT_EQ(to_string(layout), "[8, 16]: register=[(0,1)] lane=[(0,2), (0,4), (0,8), (1,0), (2,0)] warp=[(4,0)]");
  EXPECT_EQ(layout.coordinates(layout.at({.reg = 1, .lane = 5, .warp = 1})), (std::vector<int64_t>{4, 11}));
  EXPECT_TRUE(layout.injective() && layout.surjective());
}

TEST(Layout, BlockedTilesRepeatInRegistersAndCopyInThreads) {
  const Layout large = blocked({16, 64}, {1, 2}, {4, 8}, {2, 1}, {1, 0});
  EXPECT_EQ(to_string(large),
            "[16, 64]: register=[(0,1), (0,16), (0,32), (8,0)] lane=[(0,2), (0,4), (0,8), (1,0), (2,0)] warp=[(4,0)]");
  const Layout small = blocked({4}, {4}, {32}, {4}, {0});
  EXPECT_EQ(small.free_mask(Dim::kLane), Bits{31});
  EXPECT_EQ(small.free_mask(Dim::kWarp), Bits{3});
  EXPECT_EQ(small.elements_per_thread(), 4);
  EXPECT_FALSE(small.injective());
  const Layout scalar = blocked({}, {}, {}, {}, {});
  EXPECT_EQ(to_string(scalar), "[]:");
}

TEST(Layout, BlockedAgreesWithItsDescription) {
  const Layout layout = blocked({32, 32}, {2, 4}, {8, 4}, {2, 2}, {0, 1});
  for (Bits warp = 0; warp < 4; ++warp) {
    for (Bits lane = 0; lane < 32; ++lane) {
      for (Bits reg = 0; reg < 8; ++reg) {
        // Axis 0 runs fastest, in registers, lanes and warps.
        const int64_t row = static_cast<int64_t>(reg % 2 + lane % 8 * 2 + warp % 2 * 16);
        const int64_t column = static_cast<int64_t>(reg / 2 + lane / 8 * 4 + warp / 2 * 16);
        EXPECT_EQ(layout.coordinates(layout.at({.reg = reg, .lane = lane, .warp = warp})),
                  (std::vector<int64_t>{row, column}));
      }
    }
  }
}

TEST(Layout, IsLinear) {
  Random random(1);
  for (int round = 0; round < kRounds; ++round) {
    const int bits = pick(random, 0, 10);
    const Layout layout = random_layout(random, random_shape(random, bits), {.free_bits = 1, .swizzled = true});
    const Bits mask = (Bits{1} << layout.columns().size()) - 1, a = random() & mask, b = random() & mask;
    EXPECT_EQ(layout.at_packed(a ^ b), layout.at_packed(a) ^ layout.at_packed(b));
    EXPECT_TRUE(layout.surjective());
    EXPECT_EQ(layout.element(layout.coordinates(layout.at_packed(a))), layout.at_packed(a));
  }
}

TEST(Layout, ContiguousNeighboursAreInOneThreadInOrder) {
  Random random(2);
  for (int round = 0; round < kRounds; ++round) {
    const Layout layout = random_layout(random, random_shape(random, pick(random, 1, 11)),
                                        {.lane_bits = 3, .warp_bits = 1, .swizzled = round % 3 == 0});
    const int axis = layout.rank() - 1;
    const int64_t group = layout.contiguous_per_thread(axis);
    // Every thread has, for every register, all the group in the registers that thread 0 has them in.
    Span registers;
    registers.insert(layout.bases(Dim::kRegister));
    for (int64_t neighbour = 1; neighbour < group; ++neighbour) {
      const std::optional<Bits> step = registers.solve(static_cast<Bits>(neighbour));
      ASSERT_TRUE(step);
      for (Bits thread = 0; thread < 16; ++thread) {
        const Bits first = layout.at({.lane = thread % 8, .warp = thread / 8});
        EXPECT_EQ(first % static_cast<Bits>(group), 0u);
        EXPECT_EQ(layout.at({.reg = *step, .lane = thread % 8, .warp = thread / 8}),
                  first + static_cast<Bits>(neighbour));
      }
    }
  }
  EXPECT_EQ(blocked({8, 64}, {1, 4}, {2, 16}, {1, 1}, {1, 0}).contiguous_per_thread(1), 4);
  EXPECT_EQ(blocked({8, 64}, {2, 4}, {2, 16}, {1, 1}, {1, 0}).contiguous_per_thread(0), 2);
  EXPECT_EQ(blocked({8, 64}, {1, 64}, {8, 4}, {1, 1}, {1, 0}).contiguous_per_thread(1), 64);
}

TEST(LayoutAlgebra, InverseFindsEachElement) {
  Random random(3);
  for (int round = 0; round < kRounds; ++round) {
    const Layout layout = random_layout(random, random_shape(random, pick(random, 0, 11)),
                                        {.free_bits = pick(random, 0, 2), .swizzled = round % 2 == 0});
    const Layout back = inverse(layout);
    const Layout there_and_back = compose(layout, back);
    EXPECT_EQ(there_and_back.bases(Dim::kOffset), unit_vectors(layout.element_bits()));
    if (layout.injective()) {
      EXPECT_EQ(compose(back, layout).columns(), unit_vectors(layout.element_bits()));
    }
  }
}

TEST(LayoutAlgebra, InversePrefersThreadsWithoutFreeBits) {
  const Layout layout = from_steps({8}, {{Dim::kLane, kNoAxis, 1}, {Dim::kLane, 0, 2}, {Dim::kWarp, 0, 1}});
  const Layout back = inverse(layout);
  for (Bits element = 0; element < 8; ++element) EXPECT_EQ(back.at({.offset = element}), element << 1);
}

TEST(LayoutAlgebra, ComposeIsOneAfterTheOther) {
  Random random(4);
  for (int round = 0; round < kRounds; ++round) {
    const int bits = pick(random, 6, 10);
    const Layout outer = random_layout(random, random_shape(random, bits), {.lane_bits = 3, .swizzled = true});
    const Layout inner = random_layout(random, random_shape(random, static_cast<int>(outer.columns().size())),
                                       {.free_bits = 1, .swizzled = true});
    const Layout both = compose(outer, inner);
    const Bits at = random() & ((Bits{1} << inner.columns().size()) - 1);
    EXPECT_EQ(both.at_packed(at), outer.at_packed(inner.at_packed(at)));
    EXPECT_EQ(both.shape(), outer.shape());
  }
}

TEST(LayoutAlgebra, ProductsAreCopiesOfTheTile) {
  Random random(5);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int64_t> tile_shape(2, 1), rest_shape(2, 1);
    for (int i = 0; i < 5; ++i) tile_shape[pick(random, 0, 1)] *= 2, rest_shape[pick(random, 0, 1)] *= 2;
    const LayoutOptions options{.lane_bits = 2, .warp_bits = 1, .swizzled = true};
    const Layout tile = random_layout(random, tile_shape, options), rest = random_layout(random, rest_shape, options);
    const Layout whole = product(tile, rest);
    for (int i = 0; i < 50; ++i) {
      const auto below = [&](int64_t size) { return random() % static_cast<Bits>(size); };
      const Index in{below(tile.size(Dim::kRegister)), below(4), below(2)};
      const Index of{below(rest.size(Dim::kRegister)), below(4), below(2)};
      const Index both{in.reg + of.reg * static_cast<Bits>(tile.size(Dim::kRegister)), in.lane + of.lane * 4,
                       in.warp + of.warp * 2};
      const std::vector<int64_t> small = tile.coordinates(tile.at(in)), large = rest.coordinates(rest.at(of));
      EXPECT_EQ(whole.coordinates(whole.at(both)),
                (std::vector<int64_t>{small[0] + large[0] * tile_shape[0], small[1] + large[1] * tile_shape[1]}));
    }
    EXPECT_EQ(divide(whole, tile), rest);
  }
}

TEST(LayoutAlgebra, DivideRefusesWhatIsNoProduct) {
  const Layout rows = identity(2, 0, Dim::kLane, 8), columns = identity(2, 1, Dim::kLane, 8);
  EXPECT_FALSE(divide(product(rows, columns), columns));
  EXPECT_TRUE(divide(product(rows, columns), rows));
  EXPECT_FALSE(divide(rows, identity(2, 0, Dim::kLane, 16)));
  EXPECT_FALSE(divide(rows, identity(2, 0, Dim::kRegister, 2)));
  // The tile repeats, but mixed with the rest.
  Layout mixed({4, 1});
  mixed.add(Dim::kLane, Columns{1, 3});
  EXPECT_FALSE(divide(mixed, identity(2, 0, Dim::kLane, 2)));
}

TEST(LayoutAlgebra, ShapeOpsMoveElementsAsOnTiles) {
  Random random(6);
  for (int round = 0; round < kRounds; ++round) {
    const Layout layout = random_layout(random, {4, 8, 2}, {.lane_bits = 3, .warp_bits = 1, .swizzled = true});
    const Bits at = random() & ((Bits{1} << layout.columns().size()) - 1);
    const std::vector<int64_t> c = layout.coordinates(layout.at_packed(at));
    const auto of = [&](const Layout& other) { return other.coordinates(other.at_packed(at)); };
    EXPECT_EQ(of(transpose(layout, {2, 0, 1})), (std::vector<int64_t>{c[2], c[0], c[1]}));
    const int64_t number = (c[0] * 8 + c[1]) * 2 + c[2];
    EXPECT_EQ(of(reshape(layout, {16, 4})), (std::vector<int64_t>{number / 4, number % 4}));
    EXPECT_EQ(of(slice(layout, 1)), (std::vector<int64_t>{c[0], c[2]}));
    EXPECT_EQ(of(expand(layout, 1)), (std::vector<int64_t>{c[0], 0, c[1], c[2]}));
    EXPECT_EQ(of(first(layout, 1, 2)), (std::vector<int64_t>{c[0], c[1] % 2, c[2]}));
  }
}

TEST(LayoutAlgebra, BroadcastSpreadsInRegisters) {
  const Layout column = expand(blocked({8}, {1}, {8}, {1}, {0}), 1);
  const Layout wide = broadcast(column, {8, 4});
  EXPECT_EQ(to_string(wide), "[8, 4]: register=[(0,1), (0,2)] lane=[(1,0), (2,0), (4,0)]");
  EXPECT_TRUE(wide.injective() && wide.surjective());
}

TEST(LayoutAlgebra, SplitUndoesJoin) {
  Random random(7);
  for (int round = 0; round < kRounds; ++round) {
    const Layout layout = random_layout(random, random_shape(random, pick(random, 0, 9)), {.swizzled = true});
    const Layout joined = join(layout);
    EXPECT_EQ(joined.shape().back(), 2);
    for (Bits which : {0, 1}) EXPECT_EQ(joined.at({.reg = which, .lane = 9}), layout.at({.lane = 9}) << 1 | which);
    EXPECT_EQ(split(joined), layout);
  }
  EXPECT_FALSE(split(identity(1, 0, Dim::kLane, 2)));
  EXPECT_FALSE(split(identity(1, 0, Dim::kRegister, 4)));
}

TEST(LayoutAlgebra, CopiesInRegistersAreFound) {
  Random random(8);
  for (int round = 0; round < kRounds; ++round) {
    const Layout layout = random_layout(random, random_shape(random, pick(random, 3, 9)),
                                        {.lane_bits = 2, .free_bits = 2, .swizzled = true});
    const Deduplicated out = without_copies_in_registers(layout);
    EXPECT_TRUE(kernel(out.layout.bases(Dim::kRegister)).empty());
    EXPECT_EQ(multiply(out.layout.bases(Dim::kRegister), out.kept), layout.bases(Dim::kRegister));
    EXPECT_EQ(multiply(layout.bases(Dim::kRegister), out.original), out.layout.bases(Dim::kRegister));
  }
}

TEST(LayoutAlgebra, PartsOfRegistersAreTheirPartOfAnAxis) {
  EXPECT_EQ(outer_register_bits(blocked({64, 8}, {1, 2}, {8, 4}, {2, 1}, {1, 0}), 0), 2);
  EXPECT_EQ(outer_register_bits(identity(1, 0, Dim::kLane, 8), 0), 0);
  EXPECT_EQ(outer_register_bits(identity(2, 0, Dim::kRegister, 8), 0), 3);
  Random random(9);
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<int> order = round % 2 ? std::vector{1, 0} : std::vector{0, 1};
    const Layout whole = blocked({32, 64}, {1 << pick(random, 0, 2), 1 << pick(random, 0, 2)},
                                 {1 << pick(random, 0, 2), 1 << pick(random, 0, 2)}, {1, 2}, order);
    const int axis = pick(random, 0, 1), bits = pick(random, 0, outer_register_bits(whole, axis));
    for (Bits index = 0; index < Bits{1} << bits; ++index) {
      const RegisterPart part = register_part(whole, axis, bits, index);
      ASSERT_EQ(part.registers.size(), static_cast<size_t>(part.layout.size(Dim::kRegister)));
      for (Bits reg = 0; reg < part.registers.size(); ++reg) {
        const Bits lane = reg * 5 % static_cast<Bits>(whole.size(Dim::kLane)), warp = reg % 2;
        std::vector<int64_t> at = part.layout.coordinates(part.layout.at({.reg = reg, .lane = lane, .warp = warp}));
        at[static_cast<size_t>(axis)] += static_cast<int64_t>(index) * part.layout.shape()[static_cast<size_t>(axis)];
        EXPECT_EQ(whole.at({.reg = part.registers[reg], .lane = lane, .warp = warp}), whole.element(at));
      }
    }
  }
}

}  // namespace
}  // namespace kiln::codegen::gpu
