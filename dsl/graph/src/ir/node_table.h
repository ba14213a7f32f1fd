// The nodes of a body by op, operands and attributes, so that each is there once.
//
// A table by hash alone is a cache miss for each node that is added. Nodes that are added one after the other mostly
// have operands that are as new as they are: a node lies beside the greatest of its operands' numbers, and what finds
// no room there, or has no operand, in a table by hash.
#pragma once

#include <array>
#include <memory>

#include "ir/id_table.h"

namespace kiln::graph {

class NodeTable {
 public:
  struct Key {
    uint64_t hash;
    ValueId greatest = kNone;  // of the operands
  };
  static Key key(TensorOp op, std::span<const ValueId> operands, AttrsId attrs) {
    Key out{mix_hash(static_cast<uint64_t>(op), attrs)};
    for (const ValueId operand : operands) {
      out.hash = mix_hash(out.hash, operand);
      if (operand != kNoValue && (out.greatest == kNone || operand > out.greatest)) out.greatest = operand;
    }
    return out;
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
