// Masks of scores [B, H, M, N]: which are the attributes `causal` and `window` of attention, and the operand for
// others.
#pragma once

#include <optional>
#include <vector>

#include "recognise/matching.h"

namespace kiln::graph::recognition {

// As they were found: conditions of the scores' shape, beyond which scores are -inf or a finite number as low, and
// tensors that are added.
struct Masks {
  struct Condition {
    ValueId value = kNoValue;
    bool negated = false;
    double beyond = 0;
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

// -inf, or what is so far below all scores that e^x of the difference is 0: the least number of a type, or -1e30 and
// less.
bool hides(const Matching& m, ValueId value);

// In the form of attention over scores […, M, N] whose axes in front are those of batch and heads, in this order.
std::optional<Mask> mask_of(Matching& m, const Masks& masks, const TensorType& scores, const Front& front);

}  // namespace kiln::graph::recognition
