#include "gpu/block/held_tiles.h"

#include <algorithm>
#include <ranges>

#include "gpu/dot/dot_layouts.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/verify.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

// More than any thread has on most targets.
constexpr int64_t kMostRegisters = 256;
// What is refused is more than twice what the block leaves a thread. The count has tiles whole that are stored by
// parts, so that some of the fastest configs that were measured hold half as much again by it. ptxas takes 10 s of a
// softmax that holds 512 words where there are 255 registers, and spills nearly all.
constexpr int64_t most_words(int64_t registers) { return 2 * registers; }
// Of a thread, of one tile, where elements are computed one by one: they are as many ops in a row.
constexpr int64_t kMostElements = 1024;
constexpr int kMostWarps = 32;
// What a thread takes beside its tiles: addresses and the loop. ptxas asks for 154 for 128 sums of a product.
constexpr int64_t kBesideTiles = 26;

bool is_product(const Op& op) { return family_of(op) == dsl::OpFamily::kDot; }

bool is_by_element(const Op& op) {
  return op.regions.empty() && (is_elementwise(op) || op.code == OpCode::kLoad || op.code == OpCode::kStore);
}

enum class Order { kAsItStands, kByElement };

// From where a value is made to where it is read last, by number of op. What a loop reads from outside is held to its
// end; what is computed from a tile where it is wanted (placement.h) reads that tile there.
class Lifetimes {
 public:
  Lifetimes(const dsl::Kernel& kernel, const Placement& placement, Order order)
      : kernel_(kernel),
        placement_(placement),
        made_(kernel.values.size()),
        last_(kernel.values.size(), kNever),
        by_element_(kernel.values.size()) {
    note(kernel.body);
    if (order == Order::kByElement) note_by_element();
    for (size_t i = ops_.size(); i-- > 0;) note_reads(i);
  }

  HeldTiles most() const {
    HeldTiles out;
    std::vector<int64_t> change(ops_.size() + 1);
    for (ValueId id = 0; id < made_.size(); ++id) {
      if (last_[id] == kNever || !placement_.home[id]) continue;
      const int64_t words = words_of(id);
      if (by_element_[id]) {
        if (words > kMostElements && words > out.words) out = {ops_[made_[id].op].op, words};
        continue;
      }
      change[made_[id].op] += words;
      change[std::max(last_[id], made_[id].op)] -= words;
    }
    int64_t held = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
      held += change[i];
      if (held > out.words) out = {ops_[i].op, held};
    }
    return out;
  }

 private:
  static constexpr size_t kNever = SIZE_MAX;

  // An op, the number of the loop around it, how many there are, and the number of the last op inside.
  struct Place {
    const Op* op;
    size_t loop, depth, end;
  };
  struct Made {
    size_t op = 0, depth = 0;
  };

  void note(const dsl::Region& region, size_t loop = kNever, size_t depth = 0) {
    for (ValueId id : region.args) made_[id] = {ops_.size() - 1, depth};
    for (const Op& op : region.ops) {
      const size_t number = ops_.size();
      ops_.push_back({&op, loop, depth, number});
      const bool is_loop = op.code == OpCode::kFor || op.code == OpCode::kWhile;
      for (const dsl::Region& inner : op.regions) {
        is_loop ? note(inner, number, depth + 1) : note(inner, loop, depth);
      }
      ops_[number].end = ops_.size() - 1;
      for (ValueId id : op.results) made_[id] = {ops_[number].end, depth};
    }
  }

  // What an op makes by element, and all that read it do by element beside it.
  void note_by_element() {
    for (const Place& place : ops_) {
      if (!is_by_element(*place.op)) continue;
      for (ValueId id : place.op->results) by_element_[id] = true;
    }
    for (const Place& place : ops_) {
      for (ValueId id : place.op->operands) {
        if (!is_by_element(*place.op) || ops_[made_[id].op].loop != place.loop) by_element_[id] = false;
      }
    }
  }

  void note_reads(size_t number) {
    const Op& op = *ops_[number].op;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const bool is_operand = is_product(op) && i != 2;
      if (!is_operand) read(op.operands[i], read_at(op, number), number);
    }
  }

  // Where an op reads its operands: at once, or, of an op without a home, where somebody wants its result.
  size_t read_at(const Op& op, size_t number) const {
    if (op.results.size() != 1 || !op.regions.empty()) return number;
    const ValueId result = op.results[0];
    return !placement_.home[result] || by_element_[result] ? last_[result] : number;
  }

  void read(ValueId id, size_t at, size_t reader) {
    if (at == kNever) return;
    for (size_t loop = ops_[reader].loop; loop != kNever && ops_[loop].depth >= made_[id].depth;) {
      at = std::max(at, ops_[loop].end);
      loop = ops_[loop].loop;
    }
    last_[id] = last_[id] == kNever ? at : std::max(last_[id], at);
  }

  // Padding is nobody's register, and pointers have much in common.
  int64_t words_of(ValueId id) const {
    const dsl::Type& type = kernel_.type(id);
    if (type.rank() == 0 || type.pointer) return 0;
    const Layout& home = *placement_.home[id];
    int64_t padded = 1;
    for (int64_t extent : home.shape()) padded *= extent;
    return home.size(Dim::kRegister) * dsl::element_count(type) / padded * dsl::info(type.element).bits / 32;
  }

  const dsl::Kernel& kernel_;
  const Placement& placement_;
  std::vector<Place> ops_;
  std::vector<Made> made_;    // by value
  std::vector<size_t> last_;  // by value: the op that reads it last
  std::vector<bool> by_element_;
};

// The ops of a region, some of which wait until another one reads them; none passes an op with effects.
class LateOps {
 public:
  LateOps(const dsl::Kernel& kernel, std::vector<Op>& ops)
      : kernel_(kernel), ops_(ops), maker_(kernel.values.size(), kNone), need_(ops.size()), is_placed_(ops.size()) {}

  std::vector<Op> arranged() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      need_[i] = need_of(i);
      if (waits(ops_[i])) {
        for (ValueId id : ops_[i].results) maker_[id] = i;
        continue;
      }
      if (!may_move(ops_[i])) {
        place_operands(i);
        place_before(i);
      }
      place(i);
    }
    place_before(ops_.size());
    return std::move(out_);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  static bool may_move(const Op& op) { return op.regions.empty() && (op.code == OpCode::kLoad || is_pure(op)); }
  // What comes of loads and constants alone, element by element. Where something else is at hand it may be over with
  // the op, such as the sum of a block with a sum that a loop carries; and reductions stay in their order, for their
  // waits are gathered (gather_waits.h).
  bool waits(const Op& op) const {
    if (op.code == OpCode::kLoad) return true;
    if (!may_move(op)) return false;
    const dsl::OpFamily family = family_of(op);
    if (!is_elementwise(op) && family != dsl::OpFamily::kMake && family != dsl::OpFamily::kView) return false;
    return std::ranges::all_of(op.operands,
                               [&](ValueId id) { return kernel_.type(id).rank() == 0 || maker_[id] != kNone; });
  }

  // The ops that wait and make its operands, of which that with the largest need comes last, and of several the first.
  std::vector<size_t> waiting_operands(size_t i) const {
    std::vector<size_t> out;
    for (ValueId id : ops_[i].operands | std::views::reverse) {
      const size_t maker = maker_[id];
      if (maker != kNone && !is_placed_[maker]) out.push_back(maker);
    }
    std::ranges::stable_sort(out, {}, [&](size_t maker) { return need_[maker]; });
    return out;
  }

  // Tiles held at once while it is computed, as if nothing had two readers: the operand that needs most comes first,
  // and while each further one is computed those before it are held (Sethi and Ullman, "The Generation of Optimal Code
  // for Arithmetic Expressions", 1970).
  int64_t need_of(size_t i) const {
    int64_t out = makes_tile(ops_[i]) ? 1 : 0, held = 0;
    for (size_t maker : waiting_operands(i) | std::views::reverse) {
      out = std::max(out, need_[maker] + held);
      held += makes_tile(ops_[maker]) ? 1 : 0;
    }
    return out;
  }

  bool makes_tile(const Op& op) const {
    if (op.results.empty() || family_of(op) == dsl::OpFamily::kMake) return false;
    const dsl::Type& type = kernel_.type(op.results[0]);
    return type.rank() > 0 && !type.pointer;
  }

  void place_operands(size_t i) {
    for (size_t maker : waiting_operands(i) | std::views::reverse) place(maker);
  }

  void place_before(size_t end) {
    for (; first_ < end; ++first_) place(first_);
  }

  // What the op reads comes before.
  void place(size_t last) {
    std::vector<size_t> open = {last};
    while (!open.empty()) {
      const size_t i = open.back();
      const std::vector<size_t> before = is_placed_[i] ? std::vector<size_t>() : waiting_operands(i);
      open.insert(open.end(), before.begin(), before.end());
      if (!before.empty()) continue;
      open.pop_back();
      if (is_placed_[i]) continue;
      is_placed_[i] = true;
      out_.push_back(ops_[i]);
    }
  }

  const dsl::Kernel& kernel_;
  std::vector<Op>& ops_;
  std::vector<Op> out_;
  std::vector<size_t> maker_;  // by value: the op that waits
  std::vector<int64_t> need_;  // by op
  std::vector<bool> is_placed_;
  size_t first_ = 0;  // all before are placed
};

// The fewest warps whose threads have registers for as much as all hold; 0: none.
int warps_that_hold(int64_t words, const TargetInfo& target, const BlockShape& block) {
  for (int warps = 1; warps <= kMostWarps; warps *= 2) {
    if (words * block.warps / warps + kBesideTiles <= target.most_registers(warps * block.lanes)) return warps;
  }
  return 0;
}

// Words of a thread.
int64_t accumulators_of(const DotGroup& group, const dsl::Type& type) {
  return group.instruction.accumulator(group.columns).size(Dim::kRegister) * dsl::info(type.element).bits / 32;
}

}  // namespace

HeldTiles most_held(const dsl::Kernel& kernel, const Placement& placement) {
  return Lifetimes(kernel, placement, Order::kAsItStands).most();
}

HeldTiles surely_held(const dsl::Kernel& kernel, const Placement& placement) {
  return Lifetimes(kernel, placement, Order::kByElement).most();
}

bool holds_too_much(const dsl::Kernel& kernel, const Placement& placement) {
  return most_held(kernel, placement).words > kMostRegisters;
}

dsl::Kernel load_late(dsl::Kernel kernel) {
  dsl::for_each_region_postorder(kernel,
                                 [&](dsl::Region& region) { region.ops = LateOps(kernel, region.ops).arranged(); });
  return kernel;
}

std::optional<OverfullTiles> overfull_tiles(const dsl::Kernel& kernel, const Placement& placement,
                                            const TargetInfo& target, const BlockShape& block) {
  const int64_t registers = target.most_registers(block.threads());
  if (registers == INT64_MAX) return std::nullopt;
  const HeldTiles held = surely_held(kernel, placement);
  if (held.words <= most_words(registers)) return std::nullopt;
  return OverfullTiles{held, warps_that_hold(held.words, target, block)};
}

std::optional<CrampedProduct> cramped_product(const dsl::Kernel& kernel, const TargetInfo& target,
                                              const BlockShape& block) {
  std::optional<CrampedProduct> out;
  dsl::find_op(kernel, [&](const Op& op) {
    if (op.code != OpCode::kDot) return false;
    const DotLayouts layouts = dot_layouts(kernel, op, target, block);
    if (!layouts.group) return false;
    const int64_t needed = accumulators_of(*layouts.group, kernel.type(op.results[0])) + kBesideTiles;
    int warps = block.warps;
    while (warps > 0 && needed > target.most_registers(warps * block.lanes)) warps /= 2;
    if (warps != block.warps) out = CrampedProduct{&op, warps};
    return out.has_value();
  });
  return out;
}

}  // namespace kiln::codegen::gpu
