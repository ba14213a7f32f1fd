// Masks of scores [B, H, M, N]: which are the attributes `causal` and `window` of attention, and the operand for
// others.
#pragma once

#include <optional>
#include <vector>

#include "recognise/matching.h"

namespace kiln::graph::recognition {

// As they were found: conditions of the scores' shape, beyond which scores are -inf, and tensors that are added.
struct Masks {
  struct Condition {
    ValueId value = kNoValue;
    bool negated = false;
  };
  std::vector<Condition> conditions;
  std::vector<ValueId> added;
};

struct Mask {
  bool causal = false;
  int64_t window = 0;
  ValueId operand = kNoValue;
};

struct Front {
  Expr batch, heads;
};

// In the form of attention over a frame […, M, N] whose axes in front are those of batch and heads, in this order. None
// where it takes more than one operand.
std::optional<Mask> mask_of(Matching& m, const Masks& masks, const std::vector<Expr>& frame, const Front& front);

}  // namespace kiln::graph::recognition
