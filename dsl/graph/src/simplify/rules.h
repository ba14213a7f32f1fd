// What rules of the simplifier see and make.
//
// A rule looks at a node that is about to be added, whose operands are simplified already, and gives a value that is
// equal to its result, or none. What a rule makes is simplified in its turn.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "kiln/graph/builder.h"
#include "kiln/graph/simplify.h"

namespace kiln::graph {

class Simplifier;

// A node of one result that is not there yet.
struct Site {
  Simplifier& simplifier;
  TensorOp op;
  std::span<const ValueId> operands;
  const AttrList& attrs;
  const TensorType& type;  // of the result

  ValueId in(size_t i) const { return operands[i]; }
  bool is_float() const { return dsl::is_float(type.element); }
};

// kNoValue where the rule does not apply.
using Rule = ValueId (*)(const Site& site);

struct RuleRow {
  SimplifyRule text;
  std::vector<TensorOp> ops;  // that it looks at
  Rule rule;
};
std::vector<RuleRow> arithmetic_rules();
std::vector<RuleRow> choice_rules();
std::vector<RuleRow> view_rules();
std::vector<RuleRow> reduce_rules();
std::vector<RuleRow> real_rules();
std::vector<RuleRow> fold_rules();

// The body under construction, as rules look at it.
class Simplifier {
 public:
  Simplifier(GraphBuilder& builder, Algebra algebra, Location loc) : builder_(builder), algebra_(algebra), loc_(loc) {}

  const Graph& graph() const { return builder_.graph(); }
  Algebra algebra() const { return algebra_; }
  const TensorType& type(ValueId value) const { return builder_.type(value); }

  // The node that gives a value, if it is of this op; null for inputs.
  const Node* node(ValueId value) const;
  const Node* node(ValueId value, TensorOp op) const;
  ValueId operand(const Node& node, size_t i) const { return builder_.body().operands_of(node)[i]; }
  const AttrList& attrs(const Node& node) const { return graph().attrs(node); }

  // Bits of every element of a `full`.
  std::optional<uint64_t> splat(ValueId value) const;
  // The same as a number, of floats; and whether it is this number, of any type. -0 is not 0.
  std::optional<double> float_splat(ValueId value) const;
  bool is_number(ValueId value, double number) const;
  bool is_zero(ValueId value) const { return is_number(value, 0.0); }

  // Simplified results of an op of one result. kNoValue where the rules refuse it, which then is no rewrite.
  ValueId make(TensorOp op, std::initializer_list<ValueId> operands, AttrList attrs = {});
  ValueId make(TensorOp op, std::span<const ValueId> operands, AttrList attrs);
  ValueId full(const TensorType& type, uint64_t bits);
  ValueId full_number(const TensorType& type, double number);

 private:
  static constexpr int kMaxDepth = 32;

  GraphBuilder& builder_;
  Algebra algebra_;
  Location loc_;
  int depth_ = 0;
};

}  // namespace kiln::graph
