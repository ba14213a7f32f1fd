// Identities that hold for every operand, bit by bit (of a NaN: it stays one).
#pragma once

#include <optional>
#include <unordered_map>

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

using Definitions = std::unordered_map<dsl::ValueId, dsl::Op>;  // of the ops without regions seen so far

class Identities {
 public:
  Identities(const dsl::Kernel& kernel, const Definitions& definition) : kernel_(kernel), definition_(definition) {}

  // The bits that every element of the value has.
  std::optional<uint64_t> literal(dsl::ValueId id) const;
  // The value that the op's only result is equal to: x + 0, min(x, x), select(c, x, x), permute by [0, 1], …
  std::optional<dsl::ValueId> replacement(const dsl::Op& op) const;
  // Skips an operand's op where the two do what one does: a cast of an exact cast, a broadcast of a broadcast, …;
  // a reduction of single elements only takes the axis away.
  void shorten(dsl::Op& op) const;

 private:
  const dsl::Op* defined_by(dsl::ValueId id, dsl::OpCode code) const;
  bool is_number(dsl::ValueId id, int64_t number) const;
  bool is_all_ones(dsl::ValueId id) const;
  // A reduction or scan along an axis that one element is all of: the result is that element.
  bool combines_one(const dsl::Op& op) const;
  std::optional<dsl::ValueId> of_arithmetic(const dsl::Op& op) const;
  std::optional<dsl::ValueId> of_bits(const dsl::Op& op) const;
  std::optional<dsl::ValueId> of_choice(const dsl::Op& op) const;
  std::optional<dsl::ValueId> of_conversion(const dsl::Op& op) const;

  const dsl::Kernel& kernel_;
  const Definitions& definition_;
};

}  // namespace kiln::codegen
