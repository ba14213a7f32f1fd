// A part of a tile along one axis, computed anew: what a chunk of a long tile takes.
#pragma once

#include <map>
#include <set>

#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/uses.h"

namespace kiln::codegen {

// Elements first + offset … first + offset + extent - 1 of an axis; `offset` is an i32 scalar, or absent for 0.
struct Part {
  int64_t first = 0;
  dsl::ValueId offset = dsl::kNoValue;
  int64_t extent = 0;
};

// Whether tiles can be computed by ops that wait for their consumers: no matrix product, sort, reshape or long
// reduction takes part. Of several tiles what is said of one holds together with all before it.
class PartCheck {
 public:
  explicit PartCheck(const dsl::Kernel& kernel) : kernel_(kernel), definition_(dsl::definitions(kernel)) {}

  bool along(dsl::ValueId tile, size_t axis);  // parts of it
  bool whole(dsl::ValueId tile);               // by each chunk as it is, which is not much work
  void assume(dsl::ValueId tile, size_t axis) { seen_along_.insert({tile, axis}); }  // that parts of it are known
  // Whether nothing that was asked for takes this one otherwise.
  bool is_only_along(dsl::ValueId tile, size_t axis) const;

 private:
  bool is_param(dsl::ValueId id) const;

  const dsl::Kernel& kernel_;
  std::vector<const dsl::Op*> definition_;
  std::set<std::pair<dsl::ValueId, size_t>> seen_along_;
  std::set<dsl::ValueId> seen_whole_;
};
bool can_take_part(const dsl::Kernel& kernel, dsl::ValueId tile, size_t axis);

// Appends the ops that compute parts of tiles of `source` to `out`. The new values belong to `target`, a kernel with at
// least the values and the ops of `source`: what does not change along the axis is used as it is.
class PartBuilder {
 public:
  PartBuilder(const dsl::Kernel& source, dsl::Kernel& target, std::vector<dsl::Op>& out, const dsl::Location& loc,
              Part part);
  dsl::ValueId part(dsl::ValueId tile, size_t axis);
  // From now on this is the part of a tile.
  void set(dsl::ValueId tile, size_t axis, dsl::ValueId part) { memo_[{tile, axis}] = part; }
  // Indices that count along the part, as indices along the whole axis.
  dsl::ValueId whole_index(dsl::ValueId index);
  dsl::OpBuilder& build() { return build_; }
  dsl::Kernel& target() { return target_; }
  std::vector<dsl::Op>& out() { return out_; }

 private:
  dsl::ValueId part_new(dsl::ValueId tile, size_t axis);
  std::vector<dsl::Expr> cut(dsl::ValueId tile, size_t axis) const;  // its shape, with the part's extent
  dsl::ValueId clone(const dsl::Op& op, dsl::ValueId wanted, size_t axis);

  const dsl::Kernel& source_;
  std::vector<const dsl::Op*> definition_;
  dsl::OpBuilder build_;
  dsl::Kernel& target_;
  std::vector<dsl::Op>& out_;
  Part part_;
  std::map<std::pair<dsl::ValueId, size_t>, dsl::ValueId> memo_;
};

// i32: the row-major number of each element of a shape, times `scale`; 0 for a scalar.
dsl::ValueId row_numbers(dsl::OpBuilder& build, const std::vector<dsl::Expr>& shape, int64_t scale);
// A tile that lacks the last axis of a shape, repeated along it; and the index along that axis, i32.
dsl::ValueId spread_last(dsl::OpBuilder& build, dsl::ValueId tile, const std::vector<dsl::Expr>& shape);
dsl::ValueId along_last(dsl::OpBuilder& build, const std::vector<dsl::Expr>& shape);

}  // namespace kiln::codegen
