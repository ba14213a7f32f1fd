// What the plans of long reductions and long top-k have in common: a stage of chunks of an axis, their partial results
// in the workspace, and the last stage that takes those up.
#pragma once

#include <algorithm>
#include <functional>

#include "plan.h"
#include "plan_part.h"

namespace kiln::codegen {

inline constexpr int64_t kChunk = 1 << 16;        // elements along the axis, whatever the number of threads
inline constexpr int64_t kLongAxis = 2 * kChunk;  // elements that are worth a plan

// The op of the plan's last stage, at top level and before anything is written to memory, for which `fits` holds; -1
// where there is none or the grid is large or unknown (many programs keep the threads busy by themselves).
ptrdiff_t find_long_op(const Plan& plan, const std::function<bool(const dsl::Kernel&, const dsl::Op&)>& fits);

// How one op is split. Tiles of results: `others` are the axes but the cut one.
struct SplitRule {
  size_t axis = 0;
  std::vector<dsl::Expr> others;
  int64_t per_chunk = 0;                     // results of a chunk along a last axis; 0: there is no such axis
  std::vector<dsl::ElementType> partials{};  // element types of the results of a chunk; more get places too
  // The results of a chunk: tiles of the shape `others`, or [others, per_chunk]; of the last chunk there may be fewer.
  std::function<std::vector<dsl::ValueId>(PartBuilder& parts)> chunk{};

  int64_t each() const { return std::max<int64_t>(per_chunk, 1); }
};

// The partial results in the last stage.
class Partials {
 public:
  Partials(OpBuilder& build, const SplitRule& rule, int64_t chunks, std::vector<dsl::ValueId> pointers)
      : build_(build), rule_(rule), chunks_(chunks), pointers_(std::move(pointers)) {}

  const std::vector<dsl::ValueId>& pointers() const { return pointers_; }
  // All of one kind: [others, chunks · each()].
  dsl::ValueId all(size_t kind);
  // Of each row those with these numbers among them; i32, of the shape that a chunk's results have.
  dsl::ValueId at(size_t kind, dsl::ValueId numbers);

 private:
  dsl::ValueId load(size_t kind, dsl::ValueId index);
  int64_t row() const { return chunks_ * rule_.each(); }

  OpBuilder& build_;
  const SplitRule& rule_;
  int64_t chunks_;
  std::vector<dsl::ValueId> pointers_;
};

// Gives the plan's last stage a pointer to room for so many elements in each program's part of the workspace, and
// before the first one the number of its chunk, params[plan.kernel_params].
dsl::ValueId add_room(Plan& plan, dsl::ElementType element, int64_t elements);

// Whether an op, or one in its regions, has a trait.
bool has_trait(const dsl::Op& op, dsl::Trait trait);
int64_t element_product(const std::vector<dsl::Expr>& shape);

// Splits the op with this number: puts a stage of chunks before the last stage, where `rest` appends what takes the
// op's place and defines its results.
using Rest = std::function<void(dsl::Kernel& kernel, std::vector<dsl::Op>& out, OpBuilder& build, Partials& partials)>;
void split_op(Plan& plan, size_t number, const SplitRule& rule, const Rest& rest);

}  // namespace kiln::codegen
