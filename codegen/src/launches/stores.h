#pragma once

#include "launches/split.h"

namespace kiln::codegen {

// Tiles that the step does not define, and what makes a part of each.
struct KnownParts {
  std::vector<dsl::ValueId> tiles{};
  std::function<std::vector<dsl::ValueId>(PartBuilder& parts)> make{};
};

// Stores of the sequence's last step in programs of their own, a chunk of an axis each.
//
//   store %p, %x, %m              →   %first = mul %chunk, 16
//   store %q, %s                      store (16 rows of %p from %first on), (… of %x), (… of %m)
//                                     store %q, %s, (cmp %chunk, 0 {pred = eq})
//
// The step does nothing but store; what is stored has the axis, or is little; it is computed on the spot, or of known
// parts; and nobody loads what another program stores. Else the step is left as it is: false.
bool cut_stores(LaunchSequence& sequence, size_t axis, const Chunks& chunks, const KnownParts& known = {});

// The same along the longest axis that is stored, in chunks of these lengths, if one program should not do it all.
bool cut_long_stores(LaunchSequence& sequence, const Lengths& lengths);

}  // namespace kiln::codegen
