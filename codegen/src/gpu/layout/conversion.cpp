// The choice among the ways that are open: registers before anything else, then shuffles or shared memory by cost.
#include "gpu/layout/conversion.h"

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

Result<void> check(const Layout& source, const Layout& result, int element_bits) {
  if (element_bits != 8 && element_bits != 16 && element_bits != 32 && element_bits != 64) {
    return invalid_argument("layouts convert elements of 8, 16, 32 or 64 bits, not " + std::to_string(element_bits));
  }
  bool same_threads = source.bits(Dim::kOffset) == 0 && result.bits(Dim::kOffset) == 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp, Dim::kBlock}) same_threads &= source.bits(dim) == result.bits(dim);
  if (!same_threads || source.shape() != result.shape()) {
    return invalid_argument("layouts of different threads or tiles: " + to_string(source) + " and " +
                            to_string(result));
  }
  return {};
}

// In shuffles, which take as long as a wavefront of shared memory. In the same time there are four selects: so it is on
// NVIDIA GPUs, which shuffle 32 lanes in a clock and compute 128.
int64_t shuffle_cost(const Shuffle& shuffle, int element_bits) {
  return (shuffle.shuffles() + shuffle.selects() / 4) * (element_bits == 64 ? 2 : 1);
}

}  // namespace

// Lanes, warps and blocks stand for the same elements on both sides, or registers would move differently in each
// thread.
std::optional<RegisterMove> plan_registers(const Layout& source, const Layout& result) {
  for (Dim dim : {Dim::kLane, Dim::kWarp, Dim::kBlock}) {
    if (source.bases(dim) != result.bases(dim)) return std::nullopt;
  }
  const Span registers(source.bases(Dim::kRegister));
  Columns from;
  for (Bits element : result.bases(Dim::kRegister)) {
    const std::optional<Bits> at = registers.solve(element);
    if (!at) return std::nullopt;
    from.push_back(*at);
  }
  RegisterMove out;
  out.nothing = source == result;
  for (int64_t i = 0; i < result.size(Dim::kRegister); ++i) out.from.push_back(static_cast<int>(multiply(from, i)));
  return out;
}

Result<ConversionPlan> plan_conversion(const Layout& source, const Layout& result, int element_bits,
                                       const LaneFacts& facts) {
  if (Result<void> ok = check(source, result, element_bits); !ok) return ok.error();
  if (auto move = plan_registers(source, result)) return ConversionPlan{*move, {}, {}};
  const Deduplicated from = without_copies_in_registers(source), to = without_copies_in_registers(result);
  const std::optional<Shuffle> shuffle = plan_shuffle(from.layout, to.layout, element_bits);
  const int64_t by_shuffle = shuffle ? shuffle_cost(*shuffle, element_bits) : 0;
  const auto by_shuffles = [&] { return ConversionPlan{*shuffle, from.original, to.kept}; };
  if (shuffle && by_shuffle <= facts.barrier_cost) return by_shuffles();  // memory cannot be cheaper

  std::optional<RoundTrip> trip = plan_round_trip(from.layout, to.layout, element_bits, facts);
  if (!trip) {
    return error(ErrorCode::kCompileFailed, "a conversion of layouts would move elements between blocks: from " +
                                                to_string(source) + " to " + to_string(result));
  }
  const int64_t by_memory = trip->store.wavefronts + trip->load.wavefronts + facts.barrier_cost;
  const bool fits = trip->bytes <= facts.shared_bytes;
  if (shuffle && (by_shuffle <= by_memory || !fits)) return by_shuffles();
  if (!fits) {
    return error(ErrorCode::kCompileFailed, "a conversion of layouts needs " + std::to_string(trip->bytes) +
                                                " bytes of shared memory a block; there are " +
                                                std::to_string(facts.shared_bytes));
  }
  return ConversionPlan{std::move(*trip), from.original, to.kept};
}

}  // namespace kiln::codegen::gpu
