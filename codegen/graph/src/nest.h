// What one kernel computes, element by element: steps over the axes of an iteration space, in which views have
// dissolved into index expressions. Between graph and tile IR; a group of nodes has one.
#pragma once

#include <map>

#include "index_space.h"
#include "kiln/graph/ir.h"

namespace kiln::planner {

using graph::ElementType;
using graph::NodeId;
using graph::TensorOp;
using graph::ValueId;

// A comparison of index expressions, and several of which all hold.
struct Condition {
  dsl::AtomKind kind;  // kEq, kLt or kLe
  Expr a, b;
  auto operator<=>(const Condition&) const = default;
};
using Predicate = std::vector<Condition>;

using StepId = uint32_t;

struct Step {
  enum class Kind : uint8_t {
    kLoad,     // the element `offset` of a tensor in memory, where `when` holds; elsewhere anything
    kCompute,  // an elementwise op of the table
    kIndex,    // the integer `offset`, as an element
    kLiteral,
    kChoose,  // operands[0] where `when` holds, else operands[1]
    kPlace,   // operand 0 as a place along an axis of extent `offset`: negative ones count from the end
    kPhilox,  // the word `offset` of the stream of operands: seed, counter
    kAnchor,  // what the kernel's reduction or product of number `anchor` gives here
  };
  Kind kind = Kind::kLiteral;
  ElementType element = ElementType::kF32;
  ValueId tensor = graph::kNoValue;  // kLoad
  Expr offset = {};
  Coords coords = {};  // kLoad of a value: where the element is; axes that are merged later stay as they were
  Predicate when = {};
  TensorOp op = TensorOp::kAdd;  // kCompute
  graph::AttrsId attrs = 0;
  std::vector<StepId> operands = {};
  uint64_t bits = 0;    // kLiteral
  uint32_t anchor = 0;  // kAnchor
};

// An axis whose place is a value: an index that was looked up.
struct BoundAxis {
  size_t axis;
  StepId step;
};

struct Nest {
  IndexSpace space;
  std::vector<Step> steps;
  std::vector<BoundAxis> bound;
};

// How a nest comes to a value.
enum class Way : uint8_t {
  kInline,  // computed here
  kLoad,    // read from memory
  kAnchor,  // this kernel's own reduction or product
};
// Axes of a value from the slowest to the fastest in memory; empty: row-major.
using AxisOrder = std::vector<size_t>;
struct Source {
  Way way = Way::kInline;
  uint32_t anchor = 0;
  // kLoad: what stands for the value, if it is read from a copy, and the order of its axes; null: row-major.
  ValueId tensor = graph::kNoValue;
  const AxisOrder* order = nullptr;
};
// The place of an element in memory.
Expr place_of(const AxisOrder& order, std::span<const Expr> coords, std::span<const Expr> shape);

// Writes steps into a nest, each once. Sticky: what cannot be computed in this nest is nothing.
class NestBuilder {
 public:
  // `source` says how values come to be; `anchor_place` at which coordinates an anchor's value is there.
  NestBuilder(const graph::Graph& graph, Nest& nest, std::function<Source(ValueId)> source,
              std::function<Coords(uint32_t anchor)> anchor_place)
      : graph_(graph), nest_(nest), source_(std::move(source)), anchor_place_(std::move(anchor_place)) {}

  // The element of a value of the main body at coordinates, where the predicate holds. None: an op that has no
  // elementwise form, or an anchor at another place than the kernel has it.
  std::optional<StepId> at(ValueId value, const Coords& coords, const Predicate& when = {});
  // The place along an axis of this extent that an index tensor says at coordinates.
  std::optional<Expr> place(ValueId index, const Coords& coords, const Predicate& when, const Expr& extent);

 private:
  std::optional<StepId> computed(ValueId value, const Coords& coords, const Predicate& when);
  std::optional<StepId> elementwise(const graph::Node& node, const Coords& coords, const Predicate& when);
  std::optional<StepId> made(const graph::Node& node, ElementType element, const Coords& coords, const Predicate& when);
  std::optional<StepId> viewed(const graph::Node& node, const Coords& coords, const Predicate& when);
  std::optional<StepId> padded(const graph::Node& node, const Coords& coords, const Predicate& when);
  std::optional<StepId> joined(const graph::Node& node, const Coords& coords, const Predicate& when);
  std::optional<StepId> gathered(const graph::Node& node, const Coords& coords, const Predicate& when);
  std::optional<StepId> indexed(const graph::Node& node, const Coords& coords, const Predicate& when);

  const std::vector<Expr>& shape(ValueId value) const { return type(value).shape; }
  const graph::TensorType& type(ValueId value) const { return graph_.type(graph_.main(), value); }
  StepId add(Step step);
  std::optional<Expr> index_of(TensorOp op, ElementType element, std::span<const StepId> operands) const;

  using Key = std::tuple<ValueId, Coords, Predicate>;
  const graph::Graph& graph_;
  Nest& nest_;
  std::function<Source(ValueId)> source_;
  std::function<Coords(uint32_t)> anchor_place_;
  std::map<Key, std::optional<StepId>> known_;
};

}  // namespace kiln::planner
