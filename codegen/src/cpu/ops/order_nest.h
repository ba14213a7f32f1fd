// The nest of sort and topk: the rows along an axis one by one, whichever axis that is.
#pragma once

#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {

class OrderNest {
 public:
  OrderNest(Context& ctx, ValueId x, size_t axis);

  // Elements of the tiles at the nest's point, in vectors along the axis.
  Result<Value*> evaluate(ValueId id) { return nest.evaluate_lanes(id, point_); }
  Value* index() const { return nest.index(row_dim_); }
  // Keeps the elements of a row, to be picked from by index when the row is done.
  void keep(const ScratchSlot& row, const dsl::Type& type, Value* values);
  Value* pick(const ScratchSlot& row, const dsl::Type& type, Value* index);
  // The element of a result's row at `index`, of a tile with its own extent along the axis.
  void put(const ScratchSlot& result, const dsl::Type& type, Value* index, Value* value);
  // The first element of a result's row.
  Value* row(const ScratchSlot& result, const dsl::Type& type);

  Nest nest;

 private:
  const size_t axis_;
  const int row_dim_;
  Point point_;
};

// Scratch for one row of a tile's elements.
ScratchSlot row_slot(Context& ctx, const dsl::Type& type, int64_t extent);

}  // namespace kiln::codegen::cpu
