#include "gpu/held_tiles.h"

#include <algorithm>
#include <ranges>

#include "gpu/dot_layouts.h"
#include "kiln/dsl/verify.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

// A tile is refused where a thread would hold so many words: three times the registers that any thread has. Up to that
// assemblers take less than a minute, and a few configs of the library spill as much.
constexpr int64_t kMostWords = 3 * 256;
constexpr int kMostWarps = 32;
// What a product of several warps takes beside its sums: addresses and the loop. ptxas asks for 154 for 128 sums.
constexpr int64_t kBesideSums = 26;

bool is_product(const Op& op) { return op.code == OpCode::kDot || op.code == OpCode::kDotScaled; }

// From where a value is made to where it is read last, by number of op. What a loop reads from outside is held to its
// end; what is computed from a tile where it is wanted (placement.h) reads that tile there.
class Lifetimes {
 public:
  Lifetimes(const dsl::Kernel& kernel, const Placement& placement)
      : kernel_(kernel), placement_(placement), made_(kernel.values.size()), last_(kernel.values.size(), kNever) {
    note(kernel.body);
    for (size_t i = ops_.size(); i-- > 0;) note_reads(i);
  }

  HeldTiles most() const {
    std::vector<int64_t> change(ops_.size() + 1);
    for (ValueId id = 0; id < made_.size(); ++id) {
      if (last_[id] == kNever || !placement_.home[id]) continue;
      const int64_t words = words_of(id);
      change[made_[id].op] += words;
      change[std::max(last_[id], made_[id].op)] -= words;
    }
    HeldTiles out;
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

  void note_reads(size_t number) {
    const Op& op = *ops_[number].op;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const bool is_factor = is_product(op) && i != 2;
      if (!is_factor) read(op.operands[i], read_at(op, number), number);
    }
  }

  // Where an op reads its operands: at once, or, of an op without a home, where somebody wants its result.
  size_t read_at(const Op& op, size_t number) const {
    const bool is_computed_late = op.results.size() == 1 && op.regions.empty() && !placement_.home[op.results[0]];
    return is_computed_late ? last_[op.results[0]] : number;
  }

  void read(ValueId id, size_t at, size_t reader) {
    if (at == kNever) return;
    for (size_t loop = ops_[reader].loop; loop != kNever && ops_[loop].depth >= made_[id].depth;) {
      at = std::max(at, ops_[loop].end);
      loop = ops_[loop].loop;
    }
    last_[id] = last_[id] == kNever ? at : std::max(last_[id], at);
  }

  // Padding is nobody's register.
  int64_t words_of(ValueId id) const {
    const dsl::Type& type = kernel_.type(id);
    if (type.rank() == 0) return 0;
    const Layout& home = *placement_.home[id];
    int64_t padded = 1;
    for (int64_t extent : home.shape()) padded *= extent;
    const int64_t bits = type.pointer ? 64 : dsl::info(type.element).bits;
    return home.size(Dim::kRegister) * dsl::element_count(type) / padded * bits / 32;
  }

  const dsl::Kernel& kernel_;
  const Placement& placement_;
  std::vector<Place> ops_;
  std::vector<Made> made_;    // by value
  std::vector<size_t> last_;  // by value: the op that reads it last
};

// The fewest warps whose threads have registers for as much as all hold; 0: none.
int warps_that_hold(int64_t words, const TargetInfo& target, const BlockShape& block) {
  for (int warps = 1; warps <= kMostWarps; warps *= 2) {
    if (words * block.warps / warps <= target.most_registers(warps * block.lanes)) return warps;
  }
  return 0;
}

// Words of a thread.
int64_t sums_of(const DotGroup& group, const dsl::Type& type) {
  return group.instruction.accumulator(group.columns).size(Dim::kRegister) * dsl::info(type.element).bits / 32;
}

std::optional<CrampedProduct> cramped(const dsl::Kernel& kernel, const dsl::Region& region, const TargetInfo& target,
                                      const BlockShape& block) {
  for (const Op& op : region.ops) {
    for (const dsl::Region& inner : op.regions) {
      if (auto found = cramped(kernel, inner, target, block)) return found;
    }
    if (op.code != OpCode::kDot) continue;
    const DotLayouts layouts = dot_layouts(kernel, op, target, block);
    if (!layouts.group) continue;
    const int64_t needed = sums_of(*layouts.group, kernel.type(op.results[0])) + kBesideSums;
    int warps = block.warps;
    while (warps > 0 && needed > target.most_registers(warps * block.lanes)) warps /= 2;
    if (warps != block.warps) return CrampedProduct{&op, warps};
  }
  return std::nullopt;
}

}  // namespace

HeldTiles most_held(const dsl::Kernel& kernel, const Placement& placement) {
  return Lifetimes(kernel, placement).most();
}

Result<void> check_held_tiles(const dsl::Kernel& kernel, const Placement& placement, const TargetInfo& target,
                              const BlockShape& block, const std::string& processor) {
  const int64_t registers = target.most_registers(block.threads());
  if (registers == INT64_MAX) return {};
  const HeldTiles held = most_held(kernel, placement);
  if (held.words <= kMostWords) return {};
  const int warps = warps_that_hold(held.words, target, block);
  const std::string advice = warps > 0 ? "`num_warps = " + std::to_string(warps) + "` would do"
                                       : "no `num_warps` would do: the tiles of a program must be smaller";
  const std::string message = "target `" + processor + "`: " + dsl::info(held.op->code).name +
                              ": a thread would hold " + std::to_string(held.words) + " registers of tiles, and has " +
                              std::to_string(registers) + " in a block of " + std::to_string(block.warps) + " warps; " +
                              advice;
  return error(ErrorCode::kCompileFailed, dsl::diagnostic(kernel, held.op->loc, message));
}

std::optional<CrampedProduct> cramped_product(const dsl::Kernel& kernel, const TargetInfo& target,
                                              const BlockShape& block) {
  return cramped(kernel, kernel.body, target, block);
}

}  // namespace kiln::codegen::gpu
