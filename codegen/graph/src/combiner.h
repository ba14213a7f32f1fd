// What reductions, scans and scatters combine by: one of the table's kinds, or a body of the graph.
#pragma once

#include "step_emitter.h"

namespace kiln::planner {

struct Combiner {
  graph::ReduceKind kind;
  ElementType type;  // that it accumulates in

  // Of tensors of `element`: f16, bf16 and f8 accumulate in f32.
  static Combiner of(graph::ReduceKind kind, ElementType element);

  // What changes nothing, a scalar.
  lang::Value neutral() const;
  lang::Value combine(const lang::Value& a, const lang::Value& b) const;
  // What was combined as an element: the least and the greatest may be infinite, others saturate in f8.
  lang::Value result(const lang::Value& x, ElementType element) const;
  // Of all elements along an axis of a tile, or of each and those before it.
  lang::Value along(const lang::Value& x, int axis) const;
  lang::Value scan(const lang::Value& x, int axis, bool reverse) const;
};

// Whether the body consists of what scalars have: elementwise ops, numbers, views of one element.
bool is_scalar_body(const graph::Graph& graph, graph::BodyId body);
// The expressions over dims in it.
std::vector<Expr> body_numbers(const graph::Graph& graph, graph::BodyId body);

// A scalar body on scalars or tiles.
class BodyEmitter {
 public:
  // The emitter knows the dims.
  BodyEmitter(const graph::Graph& graph, graph::BodyId body, StepEmitter& emitter)
      : graph_(graph), body_(graph.bodies[body]), emitter_(emitter) {}

  // Of operands of the left side and as many of the right.
  std::vector<lang::Value> combine(std::span<const lang::Value> left, std::span<const lang::Value> right) const;
  // The same of values that there are or not, as an i1 in front of them says: what is there of both, or of one.
  std::vector<lang::Value> combine_optional(std::span<const lang::Value> left,
                                            std::span<const lang::Value> right) const;

 private:
  const graph::Graph& graph_;
  const graph::Body& body_;
  StepEmitter& emitter_;
};

}  // namespace kiln::planner
