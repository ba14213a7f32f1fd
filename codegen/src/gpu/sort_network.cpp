// Batcher's bitonic sort (Sorting Networks and Their Applications, AFIPS 1968). After stage k, groups of 2^k neighbours
// are in order, ascending and descending in turns; the last stage ascends. Of the stages that a selection of 2^m needs
// beyond m, each compares such groups with their neighbours and keeps the lesser halves, in both.
#include "gpu/sort_network.h"

#include <numeric>

#include "gpu/exchange.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

// More comparisons of a thread, of records of up to 64 bits, are a loop, if that fits into shared memory: they take
// long to compile. One of 128 bits counts as four: each word is exchanged, and carries go from one to the next.
constexpr int64_t kMostComparisons = 640, kWideComparisons = 4;
constexpr int64_t kMostComparisonsOfAll = 8192;

int log2_of(int64_t x) { return __builtin_ctzll(static_cast<unsigned long long>(x)); }

class Network {
 public:
  Network(Context& c, const Layout& layout, int axis, std::vector<ScanStep> steps)
      : c_(c), b_(c.b), bits_(layout.axis_bits(axis)), steps_(std::move(steps)) {}

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
    const Parity keeps_greater(c_, greater);
    const Registers other = fetch(c_, x, step);
    std::map<std::tuple<Value*, Value*, bool>, Value*> done;
    for (size_t reg = 0; reg < x.size(); ++reg) {
      const bool by_register = keeps_greater.of_register(reg);
      Value*& out = done[{x[reg], other[reg], by_register}];
      if (!out) out = kept(x[reg], other[reg], by_register, keeps_greater.of_thread());
      x[reg] = out;
    }
  }

  Value* kept(Value* mine, Value* other, bool greater, Value* by_thread) {
    Value* less = b_.CreateICmpULT(mine, other);
    if (by_thread) less = b_.CreateXor(less, by_thread);
    return greater ? b_.CreateSelect(less, other, mine) : b_.CreateSelect(less, mine, other);
  }

  // Registers that hold the same already are compared once.
  void keep_least(Registers& x, int bit) {
    const Registers other = fetch(c_, x, steps_[static_cast<size_t>(bit)]);
    std::map<std::pair<Value*, Value*>, Value*> done;
    for (size_t reg = 0; reg < x.size(); ++reg) {
      Value*& out = done[std::minmax(x[reg], other[reg])];
      if (!out) out = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x[reg], other[reg]);
      x[reg] = out;
    }
  }

  Context& c_;
  Builder& b_;
  const int bits_;
  const std::vector<ScanStep> steps_;
};

// How records lie in shared memory: each as it is, or, where those are too many, the low and the high bits that they
// use in arrays of their own.
std::vector<int> record_parts(llvm::Type* record, int used_bits, int64_t count, int64_t most_bytes) {
  const auto whole = static_cast<int>(record->getPrimitiveSizeInBits().getFixedValue());
  if (count * whole / 8 <= most_bytes || used_bits > 48 || whole < 64) return {whole};
  return {32, 16};
}

int64_t bytes_of(const std::vector<int>& parts, int64_t count) {
  return count * std::accumulate(parts.begin(), parts.end(), int64_t{0}) / 8;
}

// Rows of records in shared memory, sorted in place. The loops bring barriers of their own, so that all accesses are of
// one phase for those that are put in later.
class SharedRows {
 public:
  SharedRows(Context& c, const Layout& layout, int axis, llvm::Type* record, std::vector<int> parts)
      : c_(c),
        b_(c.b),
        axis_(axis),
        bits_(layout.axis_bits(axis)),
        total_(int64_t{1} << layout.element_bits()),
        record_(record),
        parts_(std::move(parts)),
        buffer_(c.b, bytes_of(parts_, total_)) {}

  void write(const Registers& records, const Layout& layout) {
    c_.target.program_barrier(b_, c_.block);  // of an iteration before
    for (size_t reg = 0; reg < records.size(); ++reg) {
      store(records[reg], place(layout, reg));
    }
    c_.target.program_barrier(b_, c_.block);
  }

  Registers read(const Layout& layout) {
    Registers out;
    for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
      out.push_back(load(place(layout, reg)));
    }
    return out;
  }

  // for (stage = 1; stage <= bits; ++stage) for (bit = stage; bit-- > 0;) a pass over all pairs
  void sort() {
    loop("sort.stage", u32(1), u32(bits_ + 1), 1, [&](Value* stage) {
      loop("sort.step", u32(0), stage, 1, [&](Value* step) {
        Value* bit = b_.CreateSub(b_.CreateSub(stage, u32(1)), step);
        Value* thread = b_.CreateAdd(b_.CreateMul(c_.warp, u32(c_.block.lanes)), c_.lane);
        loop("sort.pair", thread, u32(total_ / 2), c_.block.lanes * c_.block.warps,
             [&](Value* pair) { compare_exchange(pair, bit, stage); });
        c_.target.program_barrier(b_, c_.block);
      });
    });
  }

 private:
  Value* u32(int64_t x) { return b_.getInt32(static_cast<uint32_t>(x)); }

  // Of each part of the record at a place: the part's type and address, and how far left it goes in the record.
  template <class Visit>
  void for_parts(Value* place, const Visit& visit) {
    int64_t offset = 0;
    uint64_t shift = 0;
    for (int bits : parts_) {
      llvm::Type* type = b_.getIntNTy(static_cast<unsigned>(bits));
      Value* array = b_.CreateConstGEP1_64(b_.getInt8Ty(), buffer_.pointer(), static_cast<uint64_t>(offset));
      visit(type, b_.CreateGEP(type, array, place), shift);
      offset += total_ * bits / 8;
      shift += static_cast<uint64_t>(bits);
    }
  }
  Value* load(Value* place) {
    Value* out = llvm::Constant::getNullValue(record_);
    for_parts(place, [&](llvm::Type* type, Value* address, uint64_t shift) {
      auto* part = b_.CreateLoad(type, address);
      buffer_.mark(part, SharedBuffer::Access::kRead, 0);
      out = b_.CreateOr(out, b_.CreateShl(b_.CreateZExt(part, record_), shift));
    });
    return out;
  }
  void store(Value* record, Value* place) {
    for_parts(place, [&](llvm::Type* type, Value* address, uint64_t shift) {
      auto* part = b_.CreateStore(b_.CreateTrunc(b_.CreateLShr(record, shift), type), address);
      buffer_.mark(part, SharedBuffer::Access::kWrite, 0);
    });
  }

  // Rows one after the other.
  Value* place(const Layout& layout, size_t reg) {
    Value* out = u32(0);
    for (int axis = 0; axis < layout.rank(); ++axis) {
      if (axis == axis_) continue;
      out = b_.CreateOr(b_.CreateShl(out, static_cast<uint64_t>(layout.axis_bits(axis))),
                        c_.coordinate(layout, reg, axis));
    }
    return b_.CreateOr(b_.CreateShl(out, static_cast<uint64_t>(bits_)), c_.coordinate(layout, reg, axis_));
  }

  // The pair's places differ in the bit alone, which is put into the pair's number.
  void compare_exchange(Value* pair, Value* bit, Value* stage) {
    Value* unit = b_.CreateShl(u32(1), bit);
    Value* low_bits = b_.CreateAnd(pair, b_.CreateSub(unit, u32(1)));
    Value* lower = b_.CreateAdd(b_.CreateShl(b_.CreateSub(pair, low_bits), u32(1)), low_bits);
    Value* upper = b_.CreateOr(lower, unit);
    Value *x = load(lower), *y = load(upper);
    Value* index = b_.CreateAnd(lower, u32((int64_t{1} << bits_) - 1));
    Value* descends = b_.CreateTrunc(b_.CreateLShr(index, stage), b_.getInt1Ty());
    Value* stay = b_.CreateXor(b_.CreateICmpULT(x, y), descends);
    store(b_.CreateSelect(stay, x, y), lower);
    store(b_.CreateSelect(stay, y, x), upper);
  }

  // for (i = start; i < end; i += step), of ints that do not overflow.
  void loop(const char* name, Value* start, Value* end, int64_t step, llvm::function_ref<void(Value*)> body) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    const auto block = [&](const char* suffix) {
      return llvm::BasicBlock::Create(b_.getContext(), std::string(name) + suffix, c_.function);
    };
    llvm::BasicBlock *inside = block(""), *after = block(".end");
    b_.CreateCondBr(b_.CreateICmpULT(start, end), inside, after);
    b_.SetInsertPoint(inside);
    auto* i = b_.CreatePHI(b_.getInt32Ty(), 2);
    i->addIncoming(start, before);
    body(i);
    Value* next = b_.CreateAdd(i, u32(step));
    i->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, end), inside, after);
    b_.SetInsertPoint(after);
  }

  Context& c_;
  Builder& b_;
  const int axis_, bits_;
  const int64_t total_;
  llvm::Type* record_;
  const std::vector<int> parts_;
  SharedBuffer buffer_;
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

Result<Registers> sort_records(Context& c, const Op& op, Registers records, int used_bits, const Layout& layout,
                               int axis, int64_t count) {
  auto steps = plan_scan(layout, axis);
  if (!steps) return steps.error();
  const Deduplicated result = without_copies_in_registers(first(layout, axis, count));
  const bool is_wide = records[0]->getType()->getPrimitiveSizeInBits().getFixedValue() > 64;
  const int64_t comparisons =
      comparisons_of(*steps, log2_of(count), static_cast<int64_t>(records.size())) * (is_wide ? kWideComparisons : 1);
  const int64_t most = c.target.lane_facts().shared_bytes, total = int64_t{1} << layout.element_bits();
  const std::vector<int> parts = record_parts(records[0]->getType(), used_bits, total, most);
  const int64_t bytes = bytes_of(parts, total);
  if (comparisons <= (bytes <= most ? kMostComparisons : kMostComparisonsOfAll)) {
    Network network(c, layout, axis, std::move(*steps));
    return picked(network.sort(std::move(records), log2_of(count)), result.original);
  }
  if (bytes > most) {
    return c.unsupported(op, "its records need " + std::to_string(bytes) +
                                 " bytes of shared memory a block; there are " + std::to_string(most));
  }
  SharedRows rows(c, layout, axis, records[0]->getType(), parts);
  rows.write(records, layout);
  rows.sort();
  return rows.read(result.layout);
}

}  // namespace kiln::codegen::gpu
