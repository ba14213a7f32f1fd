// Batcher's bitonic sort (Sorting Networks and Their Applications, AFIPS 1968). After stage k, groups of 2^k neighbours
// are in order, ascending and descending in turns; the last stage ascends. Of the stages that a selection of 2^m needs
// beyond m, each compares such groups with their neighbours and keeps the lesser halves, in both.
#include "gpu/ops/sort_network.h"

#include "gpu/layout/algebra.h"
#include "gpu/ops/window_sort.h"
#include "gpu/shared/exchange.h"
#include "gpu/shared/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

// More comparisons of a thread, of records of up to 64 bits, are made in windows (window_sort.h), if a word of each
// fits into shared memory: a network of them is long code. One of 128 bits counts as four: each word is exchanged, and
// carries go from one to the next.
constexpr int64_t kMostComparisons = 640, kWideComparisons = 4;
constexpr int64_t kMostComparisonsOfAll = 8192;

int log2_of(int64_t x) { return __builtin_ctzll(static_cast<unsigned long long>(x)); }

class Network {
 public:
  Network(Context& ctx, const Layout& layout, int axis, std::vector<ScanStep> steps)
      : ctx_(ctx), ir_(ctx.ir), bits_(layout.axis_bits(axis)), steps_(std::move(steps)) {}

  Registers sort(Registers x, int group_bits) {
    for (int stage = 1; stage <= group_bits; ++stage) merge(x, stage, stage);
    for (int stage = group_bits + 1; stage <= bits_; ++stage) {
      keep_least(x, stage - 1);
      merge(x, group_bits, stage);
    }
    return x;
  }

 private:
  // Bitonic groups of 2^bits into order, which bit `direction` of the axis says: 1 descends.
  void merge(Registers& x, int bits, int direction) {
    for (int i = bits; i-- > 0;) compare_exchange(x, steps_[static_cast<size_t>(i)], direction);
  }

  void compare_exchange(Registers& x, const ScanStep& step, int direction) {
    // Upper ones of ascending groups and lower ones of descending groups keep the greater of the two.
    Index greater = step.upper;
    if (direction < bits_) {
      const Index& descends = steps_[static_cast<size_t>(direction)].upper;
      greater = {.reg = greater.reg ^ descends.reg,
                 .lane = greater.lane ^ descends.lane,
                 .warp = greater.warp ^ descends.warp};
    }
    const Parity keeps_greater(ctx_, greater);
    const Registers other = fetch(ctx_, x, step);
    std::map<std::tuple<Value*, Value*, bool>, Value*> done;
    for (size_t reg = 0; reg < x.size(); ++reg) {
      const bool by_register = keeps_greater.of_register(reg);
      Value*& out = done[{x[reg], other[reg], by_register}];
      if (!out) out = kept(x[reg], other[reg], by_register, keeps_greater.of_thread());
      x[reg] = out;
    }
  }

  Value* kept(Value* mine, Value* other, bool greater, Value* by_thread) {
    Value* less = ir_.CreateICmpULT(mine, other);
    if (by_thread) less = ir_.CreateXor(less, by_thread);
    return greater ? ir_.CreateSelect(less, other, mine) : ir_.CreateSelect(less, mine, other);
  }

  // Registers that hold the same already are compared once.
  void keep_least(Registers& x, int bit) {
    const Registers other = fetch(ctx_, x, steps_[static_cast<size_t>(bit)]);
    std::map<std::pair<Value*, Value*>, Value*> done;
    for (size_t reg = 0; reg < x.size(); ++reg) {
      Value*& out = done[std::minmax(x[reg], other[reg])];
      if (!out) out = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x[reg], other[reg]);
      x[reg] = out;
    }
  }

  Context& ctx_;
  Builder& ir_;
  const int bits_;
  const std::vector<ScanStep> steps_;
};

// In a network of registers: half of them are needed once the lesser of two are kept.
int64_t comparisons_of(const std::vector<ScanStep>& steps, int group_bits, int64_t registers) {
  int64_t out = registers * group_bits * (group_bits + 1) / 2;
  for (size_t i = static_cast<size_t>(group_bits); i < steps.size(); ++i) {
    if (steps[i].lane == 0 && steps[i].warp == 0) registers /= 2;
    out += registers * (group_bits + 1);
  }
  return out;
}

Registers picked(const Registers& registers, const Columns& from) {
  Registers out;
  for (Bits i = 0; i < Bits{1} << from.size(); ++i) out.push_back(registers[multiply(from, i)]);
  return out;
}

// In a layout of a part of the tile, by words through shared memory.
Registers read_first(Context& ctx, const Registers& sorted, int used_bits, const Layout& from, const Layout& to) {
  Builder& ir = ctx.ir;
  llvm::Type* record = sorted[0]->getType();
  Registers out(static_cast<size_t>(to.size(Dim::kRegister)), llvm::Constant::getNullValue(record));
  for (uint64_t shift = 0; shift < static_cast<uint64_t>(used_bits); shift += 32) {
    Registers words;
    for (Value* x : sorted) words.push_back(ir.CreateTrunc(ir.CreateLShr(x, shift), ir.getInt32Ty()));
    StagedTile tile(ctx, dsl::scalar_type(ElementType::kU32), from.shape());
    tile.write(words, from, from.shape());
    for (size_t reg = 0; reg < out.size(); ++reg) {
      llvm::SmallVector<Value*, 5> at;
      for (int axis = 0; axis < to.rank(); ++axis) at.push_back(ctx.coordinate(to, reg, axis));
      out[reg] = ir.CreateOr(out[reg], ir.CreateShl(ir.CreateZExt(tile.read(at), record), shift));
    }
  }
  return out;
}

}  // namespace

Layout sort_layout(const std::vector<int64_t>& shape, int axis, const BlockShape& block) {
  const Layout tile(shape);
  std::array<int, 3> left = {0, log2_of(block.lanes), log2_of(block.warps)};
  left[0] = std::max(0, tile.element_bits() - left[1] - left[2]);
  std::vector<Step> steps;
  const auto hand_out = [&](size_t dim, int of_axis, int bits) {
    bits = std::min(bits, left[dim]);
    steps.push_back({static_cast<Dim>(dim), of_axis, bits});
    left[dim] -= bits;
    return bits;
  };
  int axis_bits = tile.axis_bits(axis);
  for (size_t dim : {0, 1, 2}) axis_bits -= hand_out(dim, axis, axis_bits);
  for (int i = tile.rank(); i-- > 0;) {
    int bits = i == axis ? 0 : tile.axis_bits(i);
    for (size_t dim : {2, 1, 0}) bits -= hand_out(dim, i, bits);
  }
  for (size_t dim : {0, 1, 2}) hand_out(dim, kNoAxis, left[dim]);
  return from_steps(shape, steps);
}

Result<Registers> sort_records(Context& ctx, const Op& op, Registers records, int used_bits, const Layout& layout,
                               int axis, int64_t count) {
  auto steps = plan_scan(layout, axis);
  if (!steps) return steps.error();
  const Deduplicated result = without_copies_in_registers(first(layout, axis, count));
  const bool is_wide = records[0]->getType()->getPrimitiveSizeInBits().getFixedValue() > 64;
  const int64_t comparisons =
      comparisons_of(*steps, log2_of(count), static_cast<int64_t>(records.size())) * (is_wide ? kWideComparisons : 1);
  const int64_t most = ctx.target.lane_facts().shared_bytes, bytes = 4 * (int64_t{1} << layout.element_bits());
  if (comparisons <= (bytes <= most ? kMostComparisons : kMostComparisonsOfAll)) {
    Network network(ctx, layout, axis, std::move(*steps));
    return picked(network.sort(std::move(records), log2_of(count)), result.original);
  }
  if (bytes > most) {
    return ctx.unsupported(op, "its records need " + std::to_string(bytes) +
                                   " bytes of shared memory a block; there are " + std::to_string(most));
  }
  auto sorted = sort_in_windows(ctx, records, used_bits, layout, axis);
  if (!sorted) return ctx.unsupported(op, sorted.error().message);
  if (count == int64_t{1} << layout.axis_bits(axis)) return picked(*sorted, result.original);
  return read_first(ctx, *sorted, used_bits, layout, result.layout);
}

}  // namespace kiln::codegen::gpu
