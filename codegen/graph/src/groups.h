// Which nodes become one kernel.
//
// Reductions and products are anchors: each begins a group, or joins one. What follows an anchor element by element
// goes into its group (its epilogue), and what comes before is computed where it is read (its prologue). What is left
// over and must be in memory is computed by groups of its own, element by element. Views never cost anything: they are
// index expressions of who reads them.
#pragma once

#include <set>

#include "nest.h"

namespace kiln::planner {

struct Group {
  enum class Form : uint8_t {
    kMap,        // each element by itself
    kReduce,     // reductions over the same axes of one shape, and what is computed of them
    kDot,        // one product, and what is computed of it
    kAttention,  // one attention, and what is computed of it, in the order of the last view of it
    kAlone,      // one op that has a kernel of its own
  };
  Form form = Form::kMap;
  // kReduce: there are so few results that parts of each are combined by programs of their own, and then the parts. All
  // that is computed of the results is as small as they are.
  bool in_parts = false;
  std::vector<Expr> domain;      // extents of the space that it runs over; kDot, kAttention: of the result
  std::vector<int64_t> reduced;  // kReduce: axes of the domain
  // By number. A reduction of several tensors stands there as often as it has results, side by side.
  std::vector<NodeId> anchors;
  std::vector<ValueId> roots;  // what is computed in it and goes to memory
  std::set<uint32_t> needs;    // groups whose roots it reads
};

// A value with its axes in another order, beside the value itself.
struct ReorderedCopy {
  ValueId of;
  AxisOrder order;
  bool operator==(const ReorderedCopy&) const = default;
};
// The number that the copy has among values.
constexpr ValueId kFirstCopy = ValueId{1} << 30;

struct Grouping {
  std::vector<Group> groups;       // in an order in which they can run
  std::vector<uint32_t> group_of;  // by node; kNone: computed where it is read
  std::vector<bool> in_memory;     // by value
  // Of those in memory whose axes do not lie in row-major order.
  std::map<ValueId, AxisOrder> orders = {};
  std::vector<ReorderedCopy> copies = {};
  std::map<std::pair<uint32_t, ValueId>, uint32_t> read_from = {};  // group, value: the copy
};

struct GroupingOptions {
  std::string_view target = "interp";
  bool fuse = true;             // else each op is a group
  std::set<NodeId> apart = {};  // nodes that go into no group of another's
  std::set<NodeId> kept = {};   // nodes whose values go to memory
};
inline bool may_fuse(const GroupingOptions& options, NodeId node) {
  return options.fuse && !options.apart.contains(node);
}
// Of a graph of primitives whose calls are inlined.
Grouping group_nodes(const graph::Graph& graph, const GroupingOptions& options);

// Puts to memory what groups do not compute where they read it.
void choose_in_memory(const graph::Graph& graph, const GroupingOptions& options, Grouping& grouping);
// Steps that an element takes.
int64_t cost_of(TensorOp op);
// Views, and casts to more bytes: what they are of says as much.
bool costs_nothing(const graph::Graph& graph, const graph::Node& node);
// Whether a value that several read is ever better in memory: of views and the like, what they are of is no larger, and
// lies there already or is worth it itself.
bool may_be_kept(const graph::Node& node);
// On GPUs, where computing costs little: puts to memory what several groups read and what moves less bytes so. `cost`
// by node; what costs less than `least` is not looked at.
void keep_what_moves_less(const graph::Graph& graph, std::span<const int64_t> cost, int64_t least, Grouping& grouping);
// Of a tensor whose dims have usual extents.
int64_t usual_bytes(const graph::TensorType& type);

// In an order in which each group comes behind those it needs: that of their nodes, or one that needs less memory.
void sort_groups(const graph::Graph& graph, Grouping& grouping);

// How the values of a group come to be, for its nest.
Source source_of(const graph::Graph& graph, const Grouping& grouping, uint32_t group, ValueId value);

// The axes that a reduction takes away.
std::vector<int64_t> reduced_axes(const graph::Graph& graph, const graph::Node& node);
// How many tensors a reduction combines at once; its operands behind them are where it begins.
size_t reduced_tensors(const graph::Node& node);

bool is_reduced(const Group& group, size_t axis);
// Whether a reduction over the group's domain has so few results for the target that it is done in parts.
bool is_in_parts(const Group& group, const graph::AttrList& attrs, TensorOp op, std::string_view target);

// Axes for the domain: an extent of 1 has the place 0.
Coords add_axes(IndexSpace& space, std::span<const Expr> domain);
// The coordinates of an anchor's result.
Coords anchor_place(const graph::Graph& graph, const Group& group, uint32_t anchor, const Coords& domain);
// Those of a value that is computed in the group, of as many elements as the domain, or as what is left of it behind
// the reduction. Behind views of a product they are the product's, as the views move them. None: of neither.
std::optional<Coords> value_place(const graph::Graph& graph, const IndexSpace& space, const Grouping& grouping,
                                  uint32_t number, ValueId value, const Coords& domain);

// Each element of a cat is looked for in all of its parts.
constexpr uint32_t kMostParts = 4;
// A cat that is done part by part has a kernel for each shape of them.
constexpr size_t kMostShapes = 4;

// Whether a node can be computed where it is read.
bool is_inlineable(TensorOp op);
bool is_view(TensorOp op);
// A cat of many parts of few shapes. It goes to memory as a group over the domain of its first part.
bool is_cat_of_many(const graph::Graph& graph, const graph::Node& node);

}  // namespace kiln::planner
