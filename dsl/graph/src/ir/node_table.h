// The nodes of a body by op, operands and attributes, so that each is there once.
//
// A table by hash alone is a cache miss for each node that is added. Nodes that are added one after the other mostly
// have operands that are as new as they are: a node lies beside the greatest of its operands' numbers, and what finds
// no room there, or has no operand, in a table by hash.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "ir/id_table.h"
#include "kiln/graph/ops.h"

namespace kiln::graph {

class NodeTable {
 public:
  struct Key {
    uint64_t hash;
    ValueId greatest = kNone;  // of the operands
  };
  static Key key(TensorOp op, std::span<const ValueId> operands, AttrsId attrs) {
    Key out{mix_hash(static_cast<uint64_t>(op), attrs)};
    const bool turns = commutes(op, operands) && operands[1] < operands[0];
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId operand = operands[turns ? 1 - i : i];
      out.hash = mix_hash(out.hash, operand);
      if (operand != kNoValue && (out.greatest == kNone || operand > out.greatest)) out.greatest = operand;
    }
    return out;
  }

  // Whether nodes of one op with these operands are equal: those of a commuting op may stand in either order.
  static bool same(TensorOp op, std::span<const ValueId> a, std::span<const ValueId> b) {
    return std::ranges::equal(a, b) || (commutes(op, a) && a.size() == b.size() && a[0] == b[1] && a[1] == b[0]);
  }

  // The node of this key for which `is_it` holds.
  template <class IsIt>
  std::optional<NodeId> find(const Key& key, const IsIt& is_it) const {
    if (key.greatest != kNone) {
      const size_t page = key.greatest / kPage;
      if (page >= pages_.size() || !pages_[page]) return std::nullopt;
      for (const Slot& slot : (*pages_[page])[key.greatest % kPage]) {
        if (slot.node == kNone) return std::nullopt;
        if (slot.hash == static_cast<uint32_t>(key.hash) && is_it(slot.node)) return slot.node;
      }
    }
    return rest_.find(key.hash, is_it);
  }
  void insert(const Key& key, NodeId node) {
    if (key.greatest == kNone) return rest_.insert(key.hash, node);
    const size_t page = key.greatest / kPage;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (!pages_[page]) pages_[page] = std::make_unique<Page>();
    for (Slot& slot : (*pages_[page])[key.greatest % kPage]) {
      if (slot.node != kNone) continue;
      slot = {static_cast<uint32_t>(key.hash), node};
      return;
    }
    rest_.insert(key.hash, node);
  }

 private:
  // Nodes come here before the number of their operands is looked at.
  static bool commutes(TensorOp op, std::span<const ValueId> operands) {
    return operands.size() == 2 && info(op).has(kCommutes);
  }

  struct Slot {
    uint32_t hash = 0;
    NodeId node = kNone;
  };

  static constexpr size_t kPage = 16;
  using Page = std::array<std::array<Slot, 4>, kPage>;

  std::vector<std::unique_ptr<Page>> pages_;  // by operand: nothing moves as they grow
  IdTable rest_;
};

}  // namespace kiln::graph
