// What the sequences of long tiles have in common: a step of chunks of an axis, their partial results in the workspace,
// and the last step that takes those up.
#pragma once

#include <algorithm>
#include <functional>

#include "kiln/dsl/traits.h"
#include "launches/launch_sequence.h"
#include "launches/part.h"

namespace kiln::codegen {

// How a target's tiles are cut, whatever the number of threads. Elements are counted along the axis; or in all of the
// tile, wider ones as the words of 32 bits that they are.
struct Lengths {
  bool of_whole_tile;
  int64_t chunk;                               // elements of a chunk
  int64_t reduced, scanned, selected, sorted;  // elements from which on a reduce, scan, topk, sort is worth a sequence
  int64_t most_runs;                           // of a sort (launches/sort.h)
  int64_t programs;                            // of a grid, at most: more of them keep the target busy by themselves
  int64_t of_unknown_grids;  // an op has to be so many times as long where nobody knows how many there are; 0: none is
};

// A chunk stays in the second-level cache. An element is read twice by a scan and sorted twice by a sort: with few
// chunks one program is as fast as two threads are.
inline constexpr Lengths kCpuLengths{.of_whole_tile = false,
                                     .chunk = 1 << 16,
                                     .reduced = 1 << 17,
                                     .scanned = 1 << 18,
                                     .selected = 1 << 17,
                                     .sorted = 1 << 19,
                                     .most_runs = 256,
                                     .programs = 8,
                                     .of_unknown_grids = 0};
// A block holds its tile in registers. Up to these lengths they suffice for what is done with it, and at four times as
// many they do for nothing: then many programs are cut, too.
inline constexpr Lengths kGpuLengths{.of_whole_tile = true,
                                     .chunk = 1 << 13,
                                     .reduced = 1 << 16,
                                     .scanned = 1 << 15,
                                     .selected = 1 << 15,
                                     .sorted = 1 << 15,
                                     .most_runs = 1024,
                                     .programs = 64,
                                     .of_unknown_grids = 4};

// An axis cut into chunks of `length` elements, and a last one of what is left.
struct Chunks {
  int64_t extent = 0, length = 0, count = 0;

  int64_t last() const { return extent - (count - 1) * length; }
};

// Of tiles of one shape. No chunks where they have fewer than `least` elements, or a chunk would have too few along the
// axis.
Chunks chunks_of(const Lengths& lengths, int64_t least, const dsl::Kernel& kernel,
                 const std::vector<dsl::ValueId>& tiles, size_t axis);

// Appends what the chunk with this number does: `append` what all but the last one do, and, where that one has another
// length, what it does, in an `if`.
void append_chunk(dsl::Kernel& kernel, const dsl::Location& loc, const Chunks& chunks, dsl::ValueId number,
                  const std::function<void(std::vector<dsl::Op>& out, const Part& part)>& append);

// The op of the sequence's last step, at top level and before anything is written to memory, for which `fits` holds; -1
// where there is none, the step is cut already, or the grid is large or unknown.
ptrdiff_t find_long_op(const LaunchSequence& sequence, const Lengths& lengths,
                       const std::function<bool(const Lengths&, const dsl::Kernel&, const dsl::Op&)>& fits);

// How one op is split. Tiles of results: `others` are the axes but the cut one.
struct SplitRule {
  size_t axis = 0;
  Chunks chunks{};
  std::vector<dsl::Expr> others{};
  int64_t per_chunk = 0;                     // results of a chunk along a last axis; 0: there is no such axis
  std::vector<dsl::ElementType> partials{};  // element types of the results of a chunk; more get places too
  // The results of a chunk: tiles of the shape `others`, or [others, per_chunk]; of the last chunk there may be fewer.
  std::function<std::vector<dsl::ValueId>(PartBuilder& parts)> chunk{};

  int64_t each() const { return std::max<int64_t>(per_chunk, 1); }
};

// The partial results in the last step.
class Partials {
 public:
  Partials(dsl::OpBuilder& build, const SplitRule& rule, std::vector<dsl::ValueId> pointers)
      : build_(build), rule_(rule), pointers_(std::move(pointers)) {}

  const std::vector<dsl::ValueId>& pointers() const { return pointers_; }
  // All of one kind: [others, chunks · each()].
  dsl::ValueId all(size_t kind);
  // Of each row those with these numbers among them; i32, of the shape that a chunk's results have.
  dsl::ValueId at(size_t kind, dsl::ValueId numbers);

 private:
  dsl::ValueId load(size_t kind, dsl::ValueId index);
  int64_t row() const { return rule_.chunks.count * rule_.each(); }

  dsl::OpBuilder& build_;
  const SplitRule& rule_;
  std::vector<dsl::ValueId> pointers_;
};

// Gives the sequence's last step a pointer to room for so many elements in each program's part of the workspace, and
// before the first one the number of its chunk, params[sequence.kernel_params].
dsl::ValueId add_room(LaunchSequence& sequence, dsl::ElementType element, int64_t elements);

int64_t element_product(const std::vector<dsl::Expr>& shape);

// Splits the op with this number: puts a step of chunks before the last step, where `rest` appends what takes the
// op's place and defines its results.
using Rest =
    std::function<void(dsl::Kernel& kernel, std::vector<dsl::Op>& out, dsl::OpBuilder& build, Partials& partials)>;
void split_op(LaunchSequence& sequence, size_t number, const SplitRule& rule, const Rest& rest);

}  // namespace kiln::codegen
