// Kernels that go along one axis: a tile is a part of several lines side by side, of [lines, places] or, where the axis
// is not the innermost, of [places, lines].
#pragma once

#include "kernel_writer.h"

namespace kiln::planner {

struct LineLayout {
  static constexpr size_t kNone = ~size_t{0};
  size_t along = kNone;          // axis of the nest; kNone: of extent 1
  size_t across = kNone;         // the innermost other one
  std::vector<size_t> programs;  // the others
  bool is_last = true;           // `along` is the innermost
  int64_t along_block = 1, across_block = 1;

  bool has_lines() const { return across != kNone; }
};

// The axis of a group that is reduced is the one that lines go along. A block has at most so many places.
LineLayout line_layout(const GroupNest& group, int64_t most_places);
// ALONG, and ACROSS where there are lines.
std::vector<ConstParam> line_consts(const LineLayout& layout);

class LineWriter {
 protected:
  // The layout's Consts begin at `signature.first_const`.
  LineWriter(const GroupContext& context, const GroupNest& group, const LineLayout& layout, const Signature& signature,
             const dsl::TracedParams& params)
      : context_(context),
        group_(group),
        space_(group.nest.space),
        layout_(layout),
        arguments_(signature.bind(params)),
        along_(params.constant(signature.first_const)),
        across_(layout.has_lines() ? params.constant(signature.first_const + 1) : lang::Const(1)),
        emitter_(context.graph, group.nest, arguments_) {}

  // A block of lines for each program.
  void bind_programs();
  // The places start … start + ALONG - 1 of each line, of which those inside of the extent are on. Nothing where
  // `along` is of extent 1.
  void bind_along(const lang::Value& start);
  lang::Value along_extent() {
    return emitter_.number(layout_.along == LineLayout::kNone ? Expr(1) : space_.extent(layout_.along));
  }
  // i32, of the tile's rank: numbers of the places of a block.
  lang::Value along_lanes() const;
  lang::Value along_mask() const { return emitter_.bound_to(layout_.along).mask; }

  // The axis of the tile, and shapes with so many places.
  int axis() const { return layout_.has_lines() && layout_.is_last ? 1 : 0; }
  lang::Shape shape(const lang::Const& places) const;
  lang::Shape tile() const { return shape(along_); }
  lang::Value on_tile(const lang::Value& x) const { return lang::broadcast_to(x, tile()); }

  const GroupContext& context_;
  const GroupNest& group_;
  const IndexSpace& space_;
  const LineLayout& layout_;
  const KernelArguments arguments_;
  const lang::Const along_, across_;
  StepEmitter emitter_;
};

}  // namespace kiln::planner
