#include "gpu/layout/conversion.h"

#include <gtest/gtest.h>

#include "execute.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/fragments.h"
#include "random_layout.h"

namespace kiln::codegen::gpu {
namespace {

const LaneFacts kHopper{.matrix_load = true, .matrix_store = true};
const LaneFacts kPlain{};

Value number(Bits element) { return element; }

// The plan, after it has been seen to do what it should.
ConversionPlan checked(const Layout& source, const Layout& result, int element_bits, const LaneFacts& facts) {
  const Result<ConversionPlan> plan = plan_conversion(source, result, element_bits, facts);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(execute(*plan, spread(source, number), result, element_bits, facts), spread(result, number))
      << to_string(source) << " to " << to_string(result);
  return *plan;
}

// The parts on their own, where the choice would be another.
void check_parts(const Layout& source, const Layout& result, int element_bits, const LaneFacts& facts) {
  const Deduplicated from = without_copies_in_registers(source), to = without_copies_in_registers(result);
  std::vector<ConversionPlan> plans;
  if (auto shuffle = plan_shuffle(from.layout, to.layout, element_bits)) {
    plans.push_back({*shuffle, from.original, to.kept});
  }
  if (auto trip = plan_round_trip(from.layout, to.layout, element_bits, facts)) {
    plans.push_back({*trip, from.original, to.kept});
  }
  for (const ConversionPlan& plan : plans) {
    EXPECT_EQ(execute(plan, spread(source, number), result, element_bits, facts), spread(result, number))
        << to_string(source) << " to " << to_string(result);
  }
}

// Bytes of a warp's registers, a line of all banks at a time: fewer wavefronts there cannot be.
int64_t fewest_wavefronts(const Layout& layout, int element_bits) {
  return (layout.size(Dim::kRegister) * layout.size(Dim::kLane) * element_bits / 8 + 127) / 128;
}

constexpr int kElementBits[] = {8, 16, 32, 64};

TEST(Conversion, RandomLayoutsThroughSharedMemory) {
  Random random(1);
  int conflicting = 0, wide = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<int64_t> shape = random_shape(random, pick(random, 0, 11));
    const LayoutOptions options{.lane_bits = round % 7 == 0 ? 6 : 5,
                                .warp_bits = pick(random, 0, 2),
                                .free_bits = pick(random, 0, 2),
                                .swizzled = round % 3 == 0};
    const Layout source = random_layout(random, shape, options), result = random_layout(random, shape, options);
    const int element_bits = kElementBits[round % 4];
    const ConversionPlan plan = checked(source, result, element_bits, round % 2 ? kHopper : kPlain);
    if (const auto* memory = std::get_if<RoundTrip>(&plan.how)) {
      wide += !memory->store.group.empty();
      conflicting += memory->store.wavefronts > fewest_wavefronts(source, element_bits);
    }
    check_parts(source, result, element_bits, round % 2 ? kHopper : kPlain);
  }
  EXPECT_GT(wide, 30);
  EXPECT_GT(conflicting, 10);
}

TEST(Conversion, RandomLayoutsOfOneWarp) {
  Random random(2);
  int shuffles = 0, further_rounds = 0;
  for (int round = 0; round < 600; ++round) {
    const std::vector<int64_t> shape = random_shape(random, pick(random, 0, 9));
    const LayoutOptions options{
        .lane_bits = pick(random, 2, 5), .warp_bits = 0, .free_bits = pick(random, 0, 3), .swizzled = round % 2 == 0};
    const Layout source = random_layout(random, shape, options), result = random_layout(random, shape, options);
    const ConversionPlan plan = checked(source, result, kElementBits[round % 4], kPlain);
    if (const auto* shuffle = std::get_if<Shuffle>(&plan.how)) {
      ++shuffles;
      further_rounds += shuffle->accept.element_bits() > 0;
    }
    check_parts(source, result, kElementBits[round % 4], kPlain);
  }
  EXPECT_GT(shuffles, 300);
  EXPECT_GT(further_rounds, 10);
}

// Warps that keep their elements, but not each in the same way.
TEST(Conversion, RandomLayoutsWithinWarps) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const LayoutOptions options{.lane_bits = 3, .warp_bits = 0, .swizzled = true};
    const Layout source = product(random_layout(random, {8, 8}, options), identity(2, 0, Dim::kWarp, 4));
    Layout result = product(random_layout(random, {8, 8}, options), identity(2, 0, Dim::kWarp, 4));
    // The warp's bits shift the elements inside: still those of the warp.
    Layout shifted(result.shape());
    for (Dim dim : {Dim::kRegister, Dim::kLane}) shifted.add(dim, result.bases(dim));
    for (Bits element : result.bases(Dim::kWarp)) shifted.add(Dim::kWarp, element ^ (random() & 63));
    EXPECT_TRUE(plan_shuffle(source, shifted, 32));
    check_parts(source, shifted, 16, kPlain);
  }
}

TEST(Conversion, RandomLayoutsOfBlocks) {
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    const LayoutOptions options{.warp_bits = 1, .swizzled = true};
    const Layout blocks = identity(1, 0, Dim::kBlock, 4), free = copies(1, Dim::kBlock, 2);
    const auto tile = [&] { return product(product(random_layout(random, {256}, options), blocks), free); };
    checked(tile(), tile(), 32, kPlain);
  }
}

TEST(Conversion, RefusesWhatItCannotDo) {
  const Layout blocks = product(identity(1, 0, Dim::kBlock, 2), identity(1, 0, Dim::kLane, 32));
  const Layout others =
      product(identity(1, 0, Dim::kRegister, 2), product(copies(1, Dim::kBlock, 2), identity(1, 0, Dim::kLane, 32)));
  EXPECT_NE(plan_conversion(blocks, others, 32, kPlain).error().message.find("between blocks"), std::string::npos);
  EXPECT_NE(plan_conversion(blocks, blocks, 1, kPlain).error().message.find("not 1"), std::string::npos);
  const Layout lanes = identity(1, 0, Dim::kLane, 64);
  EXPECT_NE(plan_conversion(blocks, lanes, 32, kPlain).error().message.find("different threads"), std::string::npos);
  const Layout rows = blocked({256, 256}, {1, 4}, {1, 32}, {4, 1}, {1, 0});
  const Layout columns = blocked({256, 256}, {4, 1}, {32, 1}, {1, 4}, {0, 1});
  EXPECT_NE(plan_conversion(rows, columns, 32, kPlain).error().message.find("262144 bytes"), std::string::npos);
}

TEST(Conversion, NothingMovesWhereThreadsKeepTheirElements) {
  const Layout accumulator = wgmma_accumulator(128);
  const ConversionPlan same = checked(accumulator, accumulator, 32, kHopper);
  EXPECT_TRUE(std::get<RegisterMove>(same.how).nothing);
  // Joining two halves and splitting them otherwise renames registers.
  const Layout permuted = reshape(transpose(reshape(blocked({64}, {8}, {8}, {1}, {0}), {8, 2, 4}), {0, 2, 1}), {64});
  const Layout straight = blocked({64}, {8}, {8}, {1}, {0});
  const ConversionPlan renamed = checked(straight, permuted, 32, kHopper);
  EXPECT_FALSE(std::get<RegisterMove>(renamed.how).nothing);
}

// Broadcast rows: what a slice holds is what the threads need.
TEST(Conversion, SlicesBroadcastBackInPlace) {
  const Layout accumulator = wgmma_accumulator(64);
  const Layout rows = broadcast(expand(slice(accumulator, 1), 1), {64, 64});
  const ConversionPlan plan = checked(expand(slice(rows, 1), 1), expand(slice(accumulator, 1), 1), 32, kHopper);
  EXPECT_TRUE(std::holds_alternative<RegisterMove>(plan.how));
}

// An accumulator of 16x8 to rows of whole quads: lanes exchange within four, one shuffle a register, or two elements in
// one.
TEST(Conversion, QuadsExchangeByShuffles) {
  const Layout accumulator = product(mma_accumulator(), identity(2, 1, Dim::kRegister, 4));
  const Layout rows =
      from_steps({16, 32}, {{Dim::kRegister, 1, 3}, {Dim::kLane, 1, 2}, {Dim::kLane, 0, 3}, {Dim::kRegister, 0, 1}});
  const ConversionPlan wide = checked(accumulator, rows, 32, kPlain);
  EXPECT_EQ(std::get<Shuffle>(wide.how).rounds(), 16);
  const ConversionPlan narrow = checked(accumulator, rows, 16, kPlain);
  EXPECT_EQ(std::get<Shuffle>(narrow.how).rounds(), 8);
}

TEST(Conversion, LanesSwappedWithRegistersCostNoMoreRoundsThanRegisters) {
  // A transpose of 32x32 within a warp: lane i's register j goes to lane j's register i. Round 0 keeps the diagonal.
  const Layout rows = from_steps({32, 32}, {{Dim::kRegister, 1, 5}, {Dim::kLane, 0, 5}});
  const LaneFacts no_memory{.shared_bytes = 0};
  const Shuffle shuffle = std::get<Shuffle>(checked(rows, transpose(rows, {1, 0}), 32, no_memory).how);
  EXPECT_EQ(shuffle.rounds(), 32);
  EXPECT_EQ(shuffle.shuffles(), 31);
  EXPECT_EQ(shuffle.selects(), 32 * (5 + 5));
  EXPECT_TRUE(shuffle.butterfly());
}

TEST(Conversion, LanesThatCopyOneOfTheirRegistersNeedNoShuffle) {
  const Layout source = from_steps({16}, {{Dim::kRegister, 0, 1}, {Dim::kLane, 0, 3}, {Dim::kLane, kNoAxis, 1}});
  const Layout result = from_steps({16}, {{Dim::kLane, 0, 0}, {Dim::kLane, 0, 4}});
  Layout copies_in_lanes({16});
  copies_in_lanes.add(Dim::kLane, Columns{2, 4, 8, 1});
  const ConversionPlan plan = checked(source, copies_in_lanes, 32, kPlain);
  EXPECT_EQ(std::get<Shuffle>(plan.how).shuffles(), 0);
  checked(source, result, 32, kPlain);
}

const RoundTrip& trip(const ConversionPlan& plan) { return std::get<RoundTrip>(plan.how); }

TEST(Conversion, CommonPairsAreFreeOfConflictsAndWide) {
  const Layout rows16 = blocked({128, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  const Layout a = product(product(mma_a(16), identity(2, 0, Dim::kWarp, 4)),
                           product(identity(2, 1, Dim::kRegister, 4), identity(2, 0, Dim::kRegister, 2)));
  const Layout rows32 = blocked({128, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  const Layout accumulator = product(product(mma_accumulator(), identity(2, 0, Dim::kWarp, 4)),
                                     product(identity(2, 1, Dim::kRegister, 8), identity(2, 0, Dim::kRegister, 2)));
  const Layout wgmma = product(wgmma_accumulator(64), identity(2, 0, Dim::kRegister, 2));
  struct Pair {
    const char* name;
    const Layout& source;
    const Layout& result;
    int element_bits;
    AccessKind store, load;
  };
  constexpr AccessKind kVector = AccessKind::kVector, kMatrix = AccessKind::kMatrix;
  for (const Pair& pair : {Pair{"load to operand", rows16, a, 16, kVector, kMatrix},
                           {"accumulator to store, f16", accumulator, rows16, 16, kMatrix, kVector},
                           {"accumulator to store, f32", accumulator, rows32, 32, kVector, kVector},
                           {"load to accumulator, f32", rows32, accumulator, 32, kVector, kVector},
                           {"wgmma to store, bf16", wgmma, rows16, 16, kMatrix, kVector},
                           {"wgmma to store, f32", wgmma, rows32, 32, kVector, kVector}}) {
    SCOPED_TRACE(pair.name);
    const RoundTrip plan = trip(checked(pair.source, pair.result, pair.element_bits, kHopper));
    EXPECT_EQ(plan.bytes, 128 * 64 * pair.element_bits / 8);
    EXPECT_EQ(plan.store.wavefronts, fewest_wavefronts(pair.source, pair.element_bits));
    EXPECT_EQ(plan.load.wavefronts, fewest_wavefronts(pair.result, pair.element_bits));
    EXPECT_EQ(plan.store.kind, pair.store);
    EXPECT_EQ(plan.load.kind, pair.load);
    // Without matrix instructions accesses are narrower, and still without conflicts.
    const RoundTrip plain = trip(checked(pair.source, pair.result, pair.element_bits, kPlain));
    for (const SharedAccess* access : {&plain.store, &plain.load}) {
      const int64_t bytes = (int64_t{1} << access->group.size()) * pair.element_bits / 8;
      EXPECT_EQ(access->wavefronts, access->instructions * std::max<int64_t>(1, bytes / 4));
    }
  }
}

// The other order in memory is what .trans is for.
TEST(Conversion, TransposedOperandsAreLoadedByMatrices) {
  const Layout b = product(mma_b(16), product(identity(2, 0, Dim::kRegister, 4), identity(2, 1, Dim::kRegister, 8)));
  const Layout all = product(b, copies(2, Dim::kWarp, 4));
  for (const auto& [rows, kind] :
       {std::pair{blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}), AccessKind::kTransposedMatrix},
        {blocked({64, 64}, {8, 1}, {8, 4}, {1, 4}, {0, 1}), AccessKind::kMatrix}}) {
    const RoundTrip plan = trip(checked(rows, all, 16, kHopper));
    EXPECT_EQ(plan.load.kind, kind);
    EXPECT_EQ(plan.store.group.size(), 3u);
    EXPECT_EQ(plan.store.wavefronts, fewest_wavefronts(rows, 16));
    EXPECT_EQ(plan.load.wavefronts, fewest_wavefronts(all, 16));
    EXPECT_EQ(plan.load.instructions, 16);
  }
}

// A matrix's row would begin in the middle of what was stored for one: a lane's second element is beside its first.
TEST(Conversion, TransposedRowsHaveToBeginTogether) {
  Layout source({256}), result({256});
  source.add(Dim::kRegister, Columns{1, 2, 4});
  source.add(Dim::kLane, Columns{8, 16, 32, 64, 128});
  result.add(Dim::kRegister, Columns{1 ^ 8, 16, 32});
  result.add(Dim::kLane, Columns{64, 128, 1, 2, 4});
  check_parts(source, result, 16, kHopper);
}

// Matrix rows are bytes: two registers of 8 bits a lane more than of 16.
TEST(Conversion, MatricesOfOtherWidths) {
  const Layout a8 = product(product(mma_a(8), identity(2, 0, Dim::kWarp, 4)), identity(2, 1, Dim::kRegister, 4));
  const Layout rows8 = blocked({64, 128}, {1, 16}, {4, 8}, {4, 1}, {1, 0});
  const RoundTrip bytes = trip(checked(rows8, a8, 8, kHopper));
  EXPECT_EQ(bytes.load.wavefronts, fewest_wavefronts(a8, 8));
  EXPECT_EQ(bytes.store.wavefronts, fewest_wavefronts(rows8, 8));
  EXPECT_EQ(bytes.load.kind, AccessKind::kMatrix);
  const Layout a32 = product(product(mma_a(32), identity(2, 0, Dim::kWarp, 4)), identity(2, 1, Dim::kRegister, 8));
  const Layout rows32 = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  const RoundTrip words = trip(checked(rows32, a32, 32, kHopper));
  EXPECT_EQ(words.load.wavefronts, fewest_wavefronts(a32, 32));
  EXPECT_EQ(words.load.kind, AccessKind::kMatrix);
}

TEST(Conversion, WavesOf64Lanes) {
  const Layout rows = blocked({128, 64}, {1, 8}, {8, 8}, {4, 1}, {1, 0});
  const Layout a = product(product(mfma_a(32, 8), identity(2, 0, Dim::kWarp, 4)), identity(2, 1, Dim::kRegister, 8));
  const RoundTrip load = trip(checked(rows, a, 16, kPlain));
  EXPECT_EQ(load.store.wavefronts, fewest_wavefronts(rows, 16));
  EXPECT_EQ(load.load.wavefronts, fewest_wavefronts(a, 16));
  const Layout c =
      product(product(mfma_accumulator(32), identity(2, 0, Dim::kWarp, 4)), identity(2, 1, Dim::kRegister, 2));
  const Layout rows32 = blocked({128, 64}, {1, 4}, {4, 16}, {4, 1}, {1, 0});
  const RoundTrip store = trip(checked(c, rows32, 32, kPlain));
  EXPECT_EQ(store.store.wavefronts, fewest_wavefronts(c, 32));
  EXPECT_EQ(store.load.wavefronts, fewest_wavefronts(rows32, 32));
}

// Which lanes of a wave loads of 16 bytes serve together is the target's affair.
TEST(Conversion, WideLoadsOfOtherLanesAtOnce) {
  const LaneFacts facts{.wide_load_lanes = {1, 2, 20}};
  const Layout rows = blocked({64, 64}, {1, 8}, {8, 8}, {4, 1}, {1, 0});
  const Layout a = product(product(mfma_a(16, 32), identity(2, 0, Dim::kWarp, 4)), identity(2, 1, Dim::kRegister, 2));
  const RoundTrip load = trip(checked(rows, a, 16, facts));
  EXPECT_EQ(load.load.group.size(), 3u);
  EXPECT_EQ(load.store.wavefronts, fewest_wavefronts(rows, 16));
  EXPECT_EQ(load.load.wavefronts, fewest_wavefronts(a, 16));
}

// A transpose through memory: what is a column of banks on one side is a row on the other.
TEST(Conversion, TransposesAreFreeOfConflicts) {
  for (int element_bits : {32, 64}) {
    const int64_t wide = 128 / element_bits;
    const Layout rows = blocked({64, 64}, {1, wide}, {8, 4}, {4, 1}, {1, 0});
    const Layout columns = blocked({64, 64}, {wide, 1}, {4, 8}, {1, 4}, {0, 1});
    const RoundTrip plan = trip(checked(rows, columns, element_bits, kPlain));
    EXPECT_EQ(plan.store.wavefronts, fewest_wavefronts(rows, element_bits));
    EXPECT_EQ(plan.load.wavefronts, fewest_wavefronts(columns, element_bits));
  }
}

}  // namespace
}  // namespace kiln::codegen::gpu
