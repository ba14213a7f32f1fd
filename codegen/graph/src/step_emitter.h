// Steps of a nest as tile values, for axes that are bound to scalars and lanes of tiles.
#pragma once

#include <map>

#include "kiln/dsl/trace_kernel.h"
#include "nest.h"

namespace kiln::planner {

namespace lang = dsl::lang;

// What an axis is in a kernel: `start`, or start + lanes.
struct BoundTo {
  lang::Value start = {};  // i64 scalar; invalid: 0
  lang::Value lanes = {};  // i32 tile that broadcasts to the kernel's tiles; invalid: a scalar axis
  lang::Value mask = {};   // i1, of the lanes' shape: where they are inside the extent; invalid: all are
};

// Pointers and dims of the kernel that is being traced.
struct KernelArguments {
  std::map<ValueId, lang::Value> tensors;
  std::map<uint32_t, lang::Value> dims;  // i64
};

class StepEmitter {
 public:
  StepEmitter(const graph::Graph& graph, const Nest& nest, const KernelArguments& arguments)
      : graph_(graph), nest_(nest), arguments_(arguments), axes_(nest.space.axis_count()) {}

  void bind(size_t axis, BoundTo to) { axes_[axis] = std::move(to); }
  const BoundTo& bound_to(size_t axis) const { return axes_[axis]; }
  // Of tiles of rows and columns: what lies in memory along the rows is loaded along them, and transposed then. A CPU
  // has whole vectors so, where it would gather a column's elements one by one.
  void transpose_loads(size_t rows, size_t columns) { transposed_ = {rows, columns}; }
  void set_anchor(uint32_t anchor, lang::Value value) { anchors_[anchor] = std::move(value); }

  lang::Value value(StepId step);
  // Where masked-off lanes are `other`: a reduction's neutral element.
  lang::Value value_or(StepId step, const lang::Value& other);
  void store(ValueId tensor, const Expr& offset, StepId step);
  // An integer expression as an i64 scalar, or a tile where lanes are in it.
  lang::Value number(const Expr& expr);
  // Where the element lies, the lanes that have it, and whether all conditions hold; invalid masks are on everywhere.
  lang::Value pointer(ValueId tensor, const Expr& offset);
  lang::Value mask_of(const Expr& offset) const { return mask_of(lanes_of(offset)); }
  lang::Value holds(const Predicate& when);

  // What is computed while it lives is forgotten behind it: of the body of a loop.
  class Scope {
   public:
    explicit Scope(StepEmitter& emitter) : emitter_(emitter), values_(emitter.values_), numbers_(emitter.numbers_) {}
    ~Scope() {
      emitter_.values_ = std::move(values_);
      emitter_.numbers_ = std::move(numbers_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepEmitter& emitter_;
    std::map<StepId, lang::Value> values_;
    std::map<Expr, lang::Value> numbers_;
  };

 private:
  lang::Value computed(const Step& step);
  lang::Value loaded(const Step& step);
  lang::Value transposed_load(const lang::Value& where, const lang::Value& mask) const;
  lang::Value random_word(const Step& step);
  // The mask of the lanes that an expression or a step depends on, and the predicate; invalid: all are on.
  lang::Value mask_of(const std::vector<bool>& axes) const;
  std::vector<bool> lanes_of(const Expr& expr) const;
  std::vector<bool> lanes_of(StepId step) const;
  void add_lanes(const Expr& expr, std::vector<bool>& out) const;
  void add_lanes(StepId step, std::vector<bool>& out) const;
  bool has_lanes(size_t axis) const;
  bool has_lanes(const Expr& expr) const;
  lang::Value any_number(const Expr& expr);
  lang::Value atom(const dsl::Atom& atom);

  const graph::Graph& graph_;
  const Nest& nest_;
  const KernelArguments& arguments_;
  std::vector<BoundTo> axes_;
  std::optional<std::pair<size_t, size_t>> transposed_;
  std::map<uint32_t, lang::Value> anchors_;
  std::map<StepId, lang::Value> values_;
  std::map<Expr, lang::Value> numbers_;
};

// Whether the place goes along `rows` one by one, and along `columns` in other steps.
bool lies_along_rows(const IndexSpace& space, const Expr& offset, size_t rows, size_t columns);

// An elementwise op of the table on tile values.
lang::Value emit_op(TensorOp op, const graph::AttrList& attrs, ElementType result,
                    std::span<const lang::Value> operands);

// A scalar of known bits.
lang::Value literal_value(ElementType element, uint64_t bits);

}  // namespace kiln::planner
