// A loop nest over the index space of a sink, and the evaluation of tile values at its points.
//
// One dimension of the nest is walked in vectors of `width` lanes. Affine masks that all lanes share become bounds:
// within them (the *interior*) no mask is evaluated; what lies outside is walked apart, if the sink needs it at all.
#pragma once

#include <functional>

#include "cpu/context.h"
#include "cpu/nest/streaming.h"

namespace kiln::codegen::cpu {

// An integer tile value as base + Σ coefficient[d] · index[d] over the nest's dimensions, all i64. Index arithmetic
// that reaches memory does not wrap, so narrower ints may be widened first.
struct Affine {
  Value* base = nullptr;
  llvm::SmallVector<Value*, 5> coefficients;  // by nest dimension; null is 0
};

enum class Mode : uint8_t {
  kInterior,  // registered masks hold in all active lanes
  kGeneric,   // every mask is evaluated
  kOutside,   // registered masks fail: their loads give `other`; values must not vary along the vector dimension
};

// The files named between the methods are where those that follow are defined.
class Nest {
 public:
  // nest.cpp
  Nest(Context& context, std::vector<int64_t> extents);

  // The whole value space, dimension by dimension.
  Point identity() const;
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t extent(int dim) const { return dims_[dim].extent; }
  int vector_dim() const { return vector_dim_; }
  int width() const { return width_; }
  // The axis to vectorise is the last of more than one element unless set.
  void set_vector_dim(int dim) { vector_dim_ = dim; }
  // Chooses the vector width for evaluating these values: wide for cheap expressions, narrower for expensive ones.
  void choose_width(llvm::ArrayRef<ValueId> values, int max_width);
  void set_width(int width) { width_ = width; }
  // The sink is a store past the caches.
  void set_store() { is_store_ = true; }

  // narrow.cpp
  // Walks the axis before small last ones in vectors, where the extents are such: a chunk is then one vector at each of
  // points(). For nests whose chunks heed that, ahead of all other preparations.
  void unroll_narrow();
  bool is_narrow() const { return points_.size() > 1; }
  // The points of a chunk in row-major order, mostly the one of the whole space.
  llvm::ArrayRef<Point> points() const { return points_; }
  // How many lanes a chunk of such vectors may have at most, of those that a chunk of one vector may have.
  int most_lanes(int most) const;

  // bounds.cpp
  // Collects the affine masks of all loads below `value` at `point` (and a sink's own mask) as bounds of the interior.
  void register_masks(ValueId value, const Point& point);
  void register_mask(ValueId mask, const Point& point);
  const std::set<MaskAt>& masks() const { return masks_; }
  bool rows_restricted() const { return rows_restricted_; }
  // Outside the interior the value is the same in all lanes: every load that varies there is masked off.
  bool uniform_outside(ValueId value, const Point& point);
  // The sink acts only where `mask` holds, and that is the interior: nothing outside needs a visit.
  bool interior_suffices(std::optional<MaskAt> sink_mask) const;
  // The sink acts only where a registered mask holds: what its bounds exclude needs no visit.
  void limit_to(llvm::ArrayRef<MaskAt> sink_masks);

  // nest.cpp
  struct Body {
    std::function<Result<void>()> chunk;  // at the current point, in the current mode and lanes
    // Instead of chunks for the lanes first…extent-1 outside the interior, in mode kOutside. Only for sinks whose
    // values are uniform_outside.
    std::function<Result<void>(Value* first, Value* count)> outside;
    std::function<Result<void>()> begin_row, end_row;  // around the walk along the vector dimension
    // Chunks may be of any width: what is left over of a row then goes in narrow ones, which is less code.
    bool any_width = false;
    // A chunk of several rows, where the walk takes them together (rows.cpp): `go_to(i)` is in the i-th of `count`. All
    // are to be computed before any is stored. Only where what `fuse_if` emits, before the walk, is true (i1).
    std::function<Result<void>(int count, llvm::function_ref<void(int)> go_to)> chunk_of_rows = {};
    std::function<Value*()> fuse_if = {};
  };
  // Walks the space: dimensions in order, the vector dimension innermost. `interior_only` restricts it to the interior.
  Result<void> walk(const Body& body, bool interior_only);
  // For a store of these values (and pointers), after all other preparations: puts into scratch what its rows decide
  // (in rows.cpp).
  Result<void> tabulate_rows(llvm::ArrayRef<ValueId> values);
  // A dimension that walk() leaves alone, at this index.
  void fix_dim(int dim, Value* index);
  // walk() visits those indices of a dimension only that stand at `table` (i32), `count` (i64) of them.
  struct Listed {
    Value *table, *count;
  };
  void set_listed(int dim, const Listed& listed) { dims_[dim].listed = listed; }
  // A dimension that walk() leaves alone; `walk_inner` walks it from `begin` to `end` inside a chunk. For nests without
  // registered masks.
  int add_inner_dim(int64_t extent);
  void walk_inner(int dim, Value* begin, Value* end, const std::function<void()>& body);
  // Runs a loop of the kernel inside a chunk: what its body defines is computed in each iteration (`bind`: its
  // arguments), all else before it.
  void walk_region(const dsl::Region& region, Value* begin, Value* end, Value* step,
                   const std::function<void(Value* count)>& iteration);
  void bind(ValueId argument, Value* lanes);
  // Inside Body::outside: visits the chunks that begin at or after lane `first`.
  void walk_outside(Value* first, const std::function<void()>& body);

  // evaluate.cpp
  // A mask as it stands at the current point: null when it holds in all active lanes.
  Result<Value*> active_mask(ValueId mask, const Point& point);
  // The value at a point: a vector where the point contains the vector dimension, else a scalar.
  Result<Value*> evaluate(ValueId id, const Point& point);
  // As a vector in any case.
  Result<Value*> evaluate_vector(ValueId id, const Point& point);
  // As the nest walks: a vector, or a scalar in a nest without a vector dimension.
  Result<Value*> evaluate_lanes(ValueId id, const Point& point);
  // The words of a `philox` (in ops/philox.cpp).
  Result<std::array<Value*, 4>> evaluate_philox(const Op& op, const Point& point);
  Value* splat(Value* x);
  // Publishes the values that were kept during the walk, and forgets those of its rows.
  void finish();

  // address.cpp
  struct Address {
    Value* pointer = nullptr;  // of the first lane, or a vector of pointers
    bool contiguous = false;   // lanes are neighbours; else uniform (scalar pointer) or a vector of pointers
    // Lanes in groups of so many: each reads what the first of its group reads, and those lie as if contiguous.
    int group = 1;
    // Lanes so many elements apart, a constant: `pointer` is the first lane's.
    int stride = 0;
  };
  // What of an address the caller heeds, beside its pointers.
  enum class Heeds : uint8_t { kPointers, kGroups, kStride };
  Result<Address> address(ValueId pointer_tile, const Point& point, Heeds heeds = Heeds::kPointers);

  // narrow.cpp
  // Where the elements at all points() lie side by side, from the first lane of the first on; null: they do not.
  Result<Value*> address_side_by_side(ValueId pointer_tile);
  // Those elements as they lie, from their vectors; the same of their masks, null: all lanes.
  Value* side_by_side(llvm::ArrayRef<Value*> vectors);
  Value* mask_side_by_side(llvm::ArrayRef<Value*> masks);

  // dot/dot_view.cpp
  // A value whose element at the point i, j, … of this nest lies in memory at pointer + Σ index·stride (elements),
  // where `whole` (i1) holds. Before the walk only.
  struct MemoryView {
    Value* pointer = nullptr;
    llvm::SmallVector<Value*, 5> strides;
    Value* whole = nullptr;
  };
  // `read`: of these dimensions only so many indices are ever read, fewer than there are perhaps.
  using Extents = llvm::SmallVector<std::pair<int, Value*>, 1>;
  std::optional<MemoryView> memory_view(ValueId id, const Extents& read = {});
  // The same of what a load or a store reaches.
  std::optional<MemoryView> memory_view(ValueId pointers, std::optional<ValueId> mask, Point point,
                                        const Extents& read = {});
  // From this index of a dimension on, all loads that the value consists of give zeros: at most the extent, 0 or more.
  // Null where none of their masks says so.
  Value* bound_along(ValueId id, int dim);
  // The same of where a mask holds.
  Value* bound_of_mask(ValueId mask, const Point& point, int dim);

  // How an int, or where a pointer points to, changes along a dimension, whatever it does along others. Emits nothing.
  enum class Along : uint8_t { kSame, kByOne, kLinearly, kSomehow };
  Along along(ValueId id, const Point& point, int dim, bool exact) const;
  Along pointers_along(ValueId id, Point point, int dim) const;
  // A mask that holds at two indices of a dimension holds between them too.
  bool is_convex_along(ValueId mask, const Point& point, int dim) const;
  // Where a mask that is convex so holds nowhere between two points that differ in their index of a dimension: a vector
  // of i1. Lanes for which that cannot be told from the two points are false.
  Result<Value*> fails_between(ValueId mask, const Point& first, const Point& last);

  // prefetch.cpp
  // What the sink may ask for early: what lies a page behind what the current chunk loads.
  llvm::ArrayRef<Ahead> ahead() const { return ahead_; }
  // For a sink that stores in place of what it reads: asks for what it reads soon, where that is of many arrays.
  void prefetch_near();

  // nest.cpp
  // How many elements the walk visits for its sink, and in a row.
  Value* trip_count() const;
  Value* trip_count_of_row() const;
  Mode mode() const { return mode_; }
  Value* lane_mask() const { return lanes_; }  // null: all lanes are active
  Value* in_active_lanes(Value* mask);         // the mask, null for true, in the active lanes alone; null: all lanes
  Value* index(int dim) const { return dims_[dim].index; }
  // Lanes below `bound` at the current point, `times` neighbours for each.
  Value* lanes_below(Value* bound, int times = 1);
  bool varies(const Point& point) const;  // contains the vector dimension

  // evaluate.cpp
  Value* slot_pointer(const ScratchSlot& slot, const Point& point, ElementType element, bool pointer);
  Value* load_slot(const ScratchSlot& slot, const Point& point, const dsl::Type& type);
  // Stores whole vectors; lanes past the extent fall into the slot's padding, or are left out where it is exact.
  void store_slot(const ScratchSlot& slot, const Point& point, const dsl::Type& type, Value* vector);
  // The same of the vectors at all points() (in narrow.cpp).
  void store_slot(const ScratchSlot& slot, const dsl::Type& type, llvm::ArrayRef<Value*> vectors);
  // The elements of a tile in scratch at the point, but along `axis` at `index`. Lanes past the extent read element 0.
  Value* gather_slot(const dsl::Type& type, const ScratchSlot& slot, const Point& point, size_t axis, Value* index,
                     bool index_is_signed);

  Context& ctx;
  Builder& ir;

 private:
  struct Dim {
    int64_t extent;
    Value* index = nullptr;
    int depth = 0;           // loop level that defines the index
    Value* bound = nullptr;  // of the interior, at most the extent; null: the extent
    Value* limit = nullptr;  // of what the sink acts on, likewise; no less than the bound
    bool inner = false;      // not walked by walk()
    std::optional<Listed> listed = {};
  };
  using Key = std::pair<ValueId, std::vector<int8_t>>;
  // What the rows of the walk decide.
  struct RowTable {
    int dim = -1;
    std::vector<ValueId> values = {};     // those in scratch
    std::vector<MaskAt> conditions = {};  // parts of masks; a bit each of a row's word
    std::optional<ScratchSlot> words = {};
    Value* word = nullptr;  // of the row
    bool all_hold = false;  // all conditions do where code is emitted now
    int fused = 1;          // so many rows at a time
  };
  struct RowSearch;

  // nest.cpp
  Point normalise(ValueId id, const Point& point) const;
  int depth_of(const Point& point) const;
  int depth_of(ValueId id, const Point& point) const;
  int cost(ValueId id, int budget) const;
  Result<void> walk_dim(int dim, const Body& body, bool interior_only, Value* inside);
  Result<void> walk_row(const Body& body, bool interior_only, Value* inside);
  Result<void> walk_vectors(const Body& body, bool interior_only, Value* inside);

  // rows.cpp
  Result<void> fill_row_table(const RowSearch& search);
  std::vector<MaskAt> parts_of(ValueId mask, const Point& point) const;
  Result<Value*> mask_on_row(ValueId mask, const Point& point);
  void split_row(const std::function<void()>& emit);
  Result<void> walk_fused_rows(const Body& body);
  Value* may_fuse(Value* first, Value* end);
  void forget_row();

  // dot/dot_view.cpp
  Along along(ValueId id, const Point& point, int dim, bool exact, std::map<Key, Along>& known) const;
  Along along_new(ValueId id, const Point& point, int dim, bool exact, std::map<Key, Along>& known) const;
  bool is_convex_along(ValueId mask, const Point& point, int dim, std::set<Key>& seen) const;
  using FailsBetween = std::map<std::pair<Key, Key>, Value*>;
  Result<Value*> fails_between(ValueId mask, const Point& first, const Point& last, FailsBetween& known);
  Result<Value*> fails_between_new(ValueId mask, const Point& first, const Point& last, FailsBetween& known);

  // evaluate.cpp
  int depth_now() const;
  int origin_depth(ValueId id, const Point& point) const;
  void keep(ValueId id, const Point& point, Value* value);
  // Runs `emit` with the builder at loop level `depth`.
  template <class F>
  auto at_depth(int depth, F emit);
  Result<Value*> evaluate_new(ValueId id, const Point& point);
  Result<llvm::SmallVector<Value*, 4>> evaluate_operands(const Op& op, const Point& point);
  Result<Value*> evaluate_elementwise(const Op& op, const Point& point);
  Result<Value*> evaluate_join(const Op& op, const Point& point);
  Result<Value*> evaluate_load(const Op& op, const Point& point);
  Value* load_if(const Op& op, const Point& point, Value* condition, Value* pointer, Value* other);
  Value* load_groups(const dsl::Type& type, const Address& where, Value* mask, Value* other);
  int64_t lane_stride(const ScratchSlot& slot, const Point& point) const;  // elements from lane to lane
  Value* strided_lanes(Value* first, llvm::Type* memory, int64_t stride);
  bool slot_usable(const ScratchSlot& slot, const Point& point) const;

  // narrow.cpp
  Result<Value*> load_side_by_side(const Op& op, const Point& point);
  Value* load_strided(const ScratchSlot& slot, const Point& point, const dsl::Type& type, int64_t stride);

  // prefetch.cpp
  void prefetch_ahead(const Op& load, const Point& point, Value* pointer);
  void prefetch_behind(const Op& load, const Point& point, Value* pointer);
  bool prefetch_iterations(const Op& load, const Point& point, Value* pointer);

  // address.cpp
  // `exact`: only where the value cannot wrap on purpose (comparisons), as opposed to indices that reach memory.
  std::optional<Affine> affine(ValueId id, const Point& point, bool exact);
  std::optional<Affine> affine_new(ValueId id, const Point& point, bool exact);
  Value* affine_value(const Affine& affine, bool with_vector_dim);
  // What a pointer is moved by: affine parts, and others. `grouped`: an index of the vectors' axis that is rounded
  // down.
  struct Offset {
    Affine affine;
    llvm::SmallVector<Value*, 2> others;
    std::optional<MaskAt> grouped = std::nullopt;
    int group = 1;
    bool groups = false;  // it may have one
  };
  Result<void> add_index(ValueId id, const Point& point, Offset& offset);
  bool add_grouped(ValueId id, const Point& point, Offset& offset);
  int group_of(const Op& product, const Point& point) const;
  Address address_of_lanes(llvm::Type* element, Value* base, const Offset& offset);

  // bounds.cpp
  using Bound = std::pair<int, Value*>;  // dimension, bound
  using Bounds = std::vector<Bound>;
  bool add_bounds(ValueId mask, const Point& point, Bounds& bounds, std::set<MaskAt>& seen);
  bool add_comparison(const Op& cmp, const Point& point, Bounds& bounds);
  Value* known_bound(Value* bound) const;
  void add_splat(const Op& splat, const Point& point, Bounds& bounds);
  Bound all_or_nothing(Value* condition);
  Point source_point(const Op& op, const Point& point) const;
  // What an element of an op's result is computed from, and where.
  llvm::SmallVector<std::pair<ValueId, Point>, 3> sources(ValueId id, const Op& op, const Point& point) const;
  bool mask_holds(ValueId mask, const Point& point) const;
  bool uniform_outside_new(ValueId id, const Point& point);

  std::vector<Dim> dims_;
  int vector_dim_ = -1;
  int width_ = 1;
  std::vector<Point> points_;
  std::set<MaskAt> masks_;
  std::set<std::pair<ValueId, std::vector<int8_t>>> visited_;
  bool outside_uniform_ = true;   // all masks are registered and constrain the same: outside, each of them fails
  bool keep_allowed_ = false;     // the walk visits the whole interior in mode kInterior
  bool rows_restricted_ = false;  // outer dimensions are walked inside their bounds only
  std::map<MaskAt, Bounds> mask_bounds_;                 // of each registered mask
  std::map<Key, std::optional<Affine>> affine_memo_[2];  // inexact, exact
  std::map<Key, bool> uniform_memo_;
  std::map<MaskAt, std::optional<std::pair<int, Value*>>>
      comparisons_;  // bounds by comparison, so that equal ones are one

  RowTable rows_;
  std::map<ValueId, ScratchSlot> kept_;
  std::set<ValueId> loaded_;  // by whole vectors
  llvm::SmallVector<Ahead, 4> ahead_;
  bool is_store_ = false;

  Mode mode_ = Mode::kInterior;
  Value* lanes_ = nullptr;
  Value* lanes_end_ = nullptr;               // lanes_ are those below it
  const dsl::Region* region_ = nullptr;      // that the innermost loop level runs
  std::vector<llvm::Instruction*> guards_;   // guards_[d]: insertion point for loop level d
  std::vector<std::map<Key, Value*>> memo_;  // by loop level
};

// Emits at the loop level that a value depends on: everything is hoisted as far as it goes by construction.
template <class F>
auto Nest::at_depth(int depth, F emit) {
  if (depth >= depth_now()) return emit();
  llvm::IRBuilderBase::InsertPointGuard restore(ir);
  const llvm::DebugLoc line = ir.getCurrentDebugLocation();
  ir.SetInsertPoint(guards_[static_cast<size_t>(depth)]);
  ir.SetCurrentDebugLocation(line);  // the op's, and not the guard's
  return emit();
}

}  // namespace kiln::codegen::cpu
