// Hash tables from contents to numbers, in two flat arrays: what a graph of 10^5 nodes is built and checked with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

inline uint64_t mix_hash(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

// Numbers by the hash of what has them; the contents, which lie elsewhere, decide.
class IdTable {
 public:
  // The first number of this hash for which `is_it` holds.
  template <class IsIt>
  std::optional<uint32_t> find(uint64_t hash, const IsIt& is_it) const {
    if (slots_.empty()) return std::nullopt;
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask; slots_[at].id != kNone; at = (at + 1) & mask) {
      if (slots_[at].hash == static_cast<uint32_t>(hash >> 32) && is_it(slots_[at].id)) return slots_[at].id;
    }
    return std::nullopt;
  }
  void insert(uint64_t hash, uint32_t id) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    place({static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32), id});
    ++count_;
  }

 private:
  struct Slot {
    uint32_t low = 0, hash = 0;  // halves of the hash
    uint32_t id = kNone;
  };

  void place(Slot slot) {
    const size_t mask = slots_.size() - 1;
    size_t at = slot.low & mask;
    while (slots_[at].id != kNone) at = (at + 1) & mask;
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kNone) place(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, half empty at least
  size_t count_ = 0;
};

// What the rules said of an op with these attributes and types of operands (kNone where one is left out). Good as long
// as bodies and kernels that attributes name stay as they are.
class Signatures {
 public:
  std::optional<std::span<const TypeId>> find(TensorOp op, AttrsId attrs, std::span<const TypeId> operands) const {
    const auto place = table_.find(hash(op, attrs, operands), [&](uint32_t at) {
      return words_[at] == static_cast<uint32_t>(op) && words_[at + 1] == attrs && words_[at + 2] == operands.size() &&
             std::equal(operands.begin(), operands.end(), words_.begin() + at + 4);
    });
    if (!place) return std::nullopt;
    return std::span(words_).subspan(*place + 4 + words_[*place + 2], words_[*place + 3]);
  }
  void insert(TensorOp op, AttrsId attrs, std::span<const TypeId> operands, std::span<const TypeId> results) {
    if (words_.size() > kNone / 2) return;
    table_.insert(hash(op, attrs, operands), static_cast<uint32_t>(words_.size()));
    words_.insert(words_.end(), {static_cast<uint32_t>(op), attrs, static_cast<uint32_t>(operands.size()),
                                 static_cast<uint32_t>(results.size())});
    words_.insert(words_.end(), operands.begin(), operands.end());
    words_.insert(words_.end(), results.begin(), results.end());
  }

 private:
  static uint64_t hash(TensorOp op, AttrsId attrs, std::span<const TypeId> operands) {
    uint64_t out = mix_hash(static_cast<uint64_t>(op), attrs);
    for (const TypeId operand : operands) out = mix_hash(out, operand);
    return out;
  }

  IdTable table_;
  std::vector<uint32_t> words_;  // op, attributes, counts of both, operands, results
};

}  // namespace kiln::graph
