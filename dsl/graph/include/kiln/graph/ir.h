// The graph IR: SSA over tensors with symbolic extents. Plain values: a pass takes a Graph and returns a Graph.
//
// A graph is a list of bodies; body 0 is what the graph computes, the others are what its loops, conditions, calls and
// custom reductions run. A body is closed: it sees its inputs and nothing else. Nodes stand in an order in which
// operands come before their users. Node, operands, values, types and attributes lie in flat arrays; types and
// attribute lists are interned: equal ones have one number.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/expr.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"
#include "kiln/dsl/types.h"
#include "kiln/graph/ops.h"

namespace kiln::graph {

using dsl::ElementType;
using dsl::Expr;
using dsl::Literal;
using dsl::Location;

// A named extent that is known when a graph runs. In Exprs it is the constexpr atom of its number in Graph::dims.
struct DimInfo {
  static constexpr int64_t kMost = int64_t{1} << 40;
  std::string name;
  int64_t low = 1;  // 0 or more
  int64_t high = kMost;
  int64_t multiple = 1;  // what it is divisible by
  bool operator==(const DimInfo&) const = default;
};

struct TensorType {
  ElementType element = ElementType::kF32;
  std::vector<Expr> shape;

  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const TensorType&) const = default;
};

using ValueId = uint32_t;  // into Body::values
using NodeId = uint32_t;   // into Body::nodes
using TypeId = uint32_t;   // into Graph::types
using AttrsId = uint32_t;  // into Graph::attr_lists; 0 is the empty list
using BodyId = uint32_t;   // into Graph::bodies
inline constexpr uint32_t kNone = ~uint32_t{0};
inline constexpr ValueId kNoValue = kNone;
inline constexpr uint32_t kMaxRank = 16;

// One attribute, in the order of the op table. By AttrKind:
//   kInt, kFlag, kEnum, kBody, kKernel  int64_t (a body's or kernel's number)
//   kFloat double    kExpr Expr    kShape vector<Expr>    kInts vector<int64_t>    kElement ElementType
//   kLiteral Literal    kData vector<uint64_t>: bits of each element    kString std::string
using Attr = std::variant<int64_t, double, Expr, std::vector<Expr>, std::vector<int64_t>, ElementType, Literal,
                          std::vector<uint64_t>, std::string>;
using AttrList = std::vector<Attr>;

struct Node {
  TensorOp op;
  AttrsId attrs = 0;
  uint32_t first_operand = 0;  // into Body::operands
  uint32_t operand_count = 0;
  ValueId first_result = 0;  // results are neighbours
  uint32_t result_count = 0;
  Location loc;  // into Graph::files
};

struct Value {
  TypeId type = 0;
  NodeId node = kNone;  // what defines it; kNone: an input
};

struct Input {
  std::string name;  // unique in the body
  ValueId value = kNoValue;
  uint32_t donated_to = kNone;  // the output that may take over its memory: a state's next value. Main body only.
  Location loc;
};

struct Output {
  std::string name;  // unique in the body
  ValueId value = kNoValue;
};

struct Body {
  std::string name;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Node> nodes;
  std::vector<ValueId> operands;  // of all nodes; kNoValue where an optional one is left out, at the end too
  std::vector<Value> values;
  std::map<ValueId, std::string> names;  // for readers only; unique in the body, inputs' not among them

  std::span<const ValueId> operands_of(const Node& node) const {
    return std::span(operands).subspan(node.first_operand, node.operand_count);
  }
};

// A tile kernel as a node: what stands behind each of its parameters, in order. Scalars are expressions over dims.
struct TileKernel {
  struct Argument {
    enum class Kind : uint8_t { kOperand, kResult, kScalar };
    Kind kind = Kind::kOperand;
    uint32_t index = 0;  // of the operand or result
    Expr scalar;
  };
  // Code of the user's own for a target, "cuda:sm_90a", or a family of them, "cuda".
  struct Code {
    std::string target;
    dsl::CustomCode code;

    bool operator==(const Code&) const = default;
  };
  std::string name;  // unique in the graph
  dsl::Kernel kernel;
  std::vector<Argument> arguments;
  std::vector<TensorType> operands;
  std::vector<TensorType> results;
  // Takes the operands, the results, then a gradient of each result; gives a gradient of each operand that is a float.
  BodyId gradient = kNone;
  // In place of the kernel's ops on the targets that they name. Elsewhere the ops run; where there are none, that is
  // an error.
  std::vector<Code> codes = {};

  // The first for a target in full; null: the ops run.
  const dsl::CustomCode* code_for(std::string_view target) const;
  // "has code for cuda, and no ops": what keeps it from running elsewhere. Empty: its ops do.
  std::string no_ops() const;
};

struct Graph {
  std::vector<DimInfo> dims;
  std::vector<TensorType> types;
  std::vector<AttrList> attr_lists = {{}};
  std::vector<Body> bodies;  // 0: main, whose name is the graph's
  std::vector<TileKernel> kernels;
  std::vector<std::string> files;

  const Body& main() const { return bodies.front(); }
  const TensorType& type(const Body& body, ValueId value) const { return types[body.values[value].type]; }
  const AttrList& attrs(const Node& node) const { return attr_lists[node.attrs]; }
  dsl::ExprNames expr_names() const;
  // "file:line:column", or "" when unknown.
  std::string location_text(const Location& loc) const;
  std::optional<uint32_t> find_dim(std::string_view name) const;
};

// The attribute at a place of the op's list, as the C++ type that its kind has.
inline int64_t int_attr(const AttrList& attrs, size_t index) { return std::get<int64_t>(attrs[index]); }
inline bool flag_attr(const AttrList& attrs, size_t index) { return int_attr(attrs, index) != 0; }
inline double float_attr(const AttrList& attrs, size_t index) { return std::get<double>(attrs[index]); }
inline const std::vector<int64_t>& ints_attr(const AttrList& attrs, size_t index) {
  return std::get<std::vector<int64_t>>(attrs[index]);
}
inline const std::vector<Expr>& shape_attr(const AttrList& attrs, size_t index) {
  return std::get<std::vector<Expr>>(attrs[index]);
}
inline const Expr& expr_attr(const AttrList& attrs, size_t index) { return std::get<Expr>(attrs[index]); }
inline ElementType element_attr(const AttrList& attrs, size_t index) { return std::get<ElementType>(attrs[index]); }
template <class Enum>
Enum enum_attr(const AttrList& attrs, size_t index) {
  return static_cast<Enum>(int_attr(attrs, index));
}

// Bitwise equality and hash: floats compare by their bits.
bool same(const AttrList& a, const AttrList& b);
uint64_t hash(const AttrList& attrs);
uint64_t hash(const TensorType& type);

// "f32[n, 4]", "i64[]".
std::string to_string(const TensorType& type, const dsl::ExprNames& names);
// The default of an attribute of the table, if it has one.
std::optional<Attr> default_attr(const AttrInfo& attr);
// The list with those left out at the end added, as far as they have defaults.
AttrList with_default_attrs(TensorOp op, AttrList attrs);

}  // namespace kiln::graph
