// Tiles that lie in memory as they are, so that a dot can read them in place.
#include "cpu/nest.h"

namespace kiln::codegen::cpu {

std::optional<Nest::MemoryView> Nest::memory_view(ValueId id) {
  MemoryView view;
  Point point = normalise(id, identity());
  const Op* op = c.definition[id];
  while (!c.slots[id] && op &&
         (op->code == OpCode::kPermute || op->code == OpCode::kExpandDims || op->code == OpCode::kBroadcast)) {
    point = source_point(*op, point);
    id = op->operands[0];
    op = c.definition[id];
  }
  auto strides_at = [&](auto stride_of) {
    view.strides.assign(static_cast<size_t>(rank()), c.i64(0));
    for (size_t axis = 0; axis < point.size(); ++axis) {
      if (point[axis] != kZero) view.strides[static_cast<size_t>(point[axis])] = stride_of(axis);
    }
  };
  if (const auto& slot = c.slots[id]) {
    if (!slot->valid_under.empty()) return std::nullopt;
    view.pointer = slot_address(c, *slot);
    strides_at([&](size_t axis) { return c.i64(slot->strides[axis]); });
    view.whole = b.getTrue();
    return view;
  }
  if (!op || op->code != OpCode::kLoad) return std::nullopt;
  return memory_view(op->operands[0], op->operands.size() > 1 ? std::optional(op->operands[1]) : std::nullopt, point);
}

std::optional<Nest::MemoryView> Nest::memory_view(ValueId pointers, std::optional<ValueId> mask, Point point) {
  MemoryView view;
  // The mask, if any, must be one that bounds decide.
  view.whole = b.getTrue();
  if (mask) {
    register_mask(*mask, point);
    if (!masks_.count({*mask, normalise(*mask, point)})) return std::nullopt;
    for (const Dim& dim : dims_) {
      if (dim.bound) view.whole = b.CreateAnd(view.whole, b.CreateICmpSGE(dim.bound, c.i64(dim.extent)));
    }
  }
  // The address: a base pointer and affine offsets.
  Affine offset;
  offset.base = c.i64(0);
  offset.coefficients.assign(static_cast<size_t>(rank()), c.i64(0));
  ValueId at = pointers;
  while (!c.type(at).is_scalar()) {
    const Op* step = c.definition[at];
    if (!step || c.slots[at]) return std::nullopt;
    if (step->code == OpCode::kAddptr) {
      const auto part = affine(step->operands[1], normalise(step->operands[1], point), false);
      if (!part) return std::nullopt;
      offset.base = b.CreateAdd(offset.base, part->base);
      for (size_t d = 0; d < offset.coefficients.size(); ++d) {
        if (part->coefficients[d]) offset.coefficients[d] = b.CreateAdd(offset.coefficients[d], part->coefficients[d]);
      }
      point = normalise(step->operands[0], point);
    } else if (step->code == OpCode::kSplat) {
      point = {};
    } else if (step->code == OpCode::kBroadcast || step->code == OpCode::kExpandDims ||
               step->code == OpCode::kPermute) {
      point = source_point(*step, point);
    } else {
      return std::nullopt;
    }
    at = step->operands[0];
  }
  view.pointer = b.CreateGEP(memory_type(b.getContext(), c.type(pointers).element, false), c.scalars[at], offset.base);
  view.strides.assign(offset.coefficients.begin(), offset.coefficients.end());
  return view;
}

}  // namespace kiln::codegen::cpu
