// From a group to its kernel.
#pragma once

#include "groups.h"
#include "kiln/graph/plan.h"
#include "step_emitter.h"

namespace kiln::planner {

// What stands behind a parameter: a tensor in memory, a dim, or an expression over dims.
struct KernelArgument {
  bool is_tensor = true;
  ValueId tensor = graph::kNoValue;
  uint32_t dim = 0;
  std::optional<Expr> scalar = {};
};

// By tensor of which places of others are computed (array_sizes.h): the extent that its elements are below.
using Indices = std::map<ValueId, std::optional<Expr>>;

struct WrittenKernel {
  graph::PlannedKernel kernel;
  std::vector<KernelArgument> arguments;
  // (read, written): the kernel reads no other element of the first than that whose place in the second it writes, and
  // before that; both may be one array.
  std::vector<std::pair<ValueId, ValueId>> in_place = {};
  std::optional<Indices> indices = {};  // absent: nothing is known of what ints are
};

// What a group runs, one after the other.
struct WrittenGroup {
  std::vector<WrittenKernel> kernels;
  // Tensors that these kernels alone use; their numbers are those behind the graph's values.
  std::vector<graph::TensorType> temporaries = {};
};

// A value of the group that goes to memory.
struct Stored {
  ValueId value;
  StepId step;
  Expr offset;         // in elements
  Coords coords = {};  // where the element is; axes that are merged later stay as they were
};

// A group as a nest over its domain.
struct GroupNest {
  Nest nest;
  Coords domain;
  std::vector<size_t> axes;                  // of the domain whose extent is not 1, from the outermost
  std::vector<bool> is_reduced;              // by place in `axes`
  std::vector<StepId> anchors;               // kReduce: what each combines
  std::vector<std::optional<StepId>> inits;  // of each anchor: what it begins with, if that is a value
  std::vector<Expr> numbers;                 // over dims, beside those of the nest
  std::vector<Stored> stores;
};

struct GroupContext {
  const graph::Graph& graph;
  const Grouping& grouping;
  uint32_t number;
  std::string_view target;

  const Group& group() const { return grouping.groups[number]; }
  const graph::TensorType& type(ValueId value) const { return graph.type(graph.main(), value); }
  // Where an element of a value lies that the group writes.
  Expr place(ValueId value, std::span<const Expr> coords) const {
    const auto order = grouping.orders.find(value);
    return place_of(order == grouping.orders.end() ? AxisOrder() : order->second, coords, type(value).shape);
  }
  bool on_cpu() const { return target.starts_with("cpu") || target.starts_with("interp"); }
};

// The error names the node that has no kernel.
Result<WrittenGroup> write_group(const GroupContext& context);
Error no_kernel(const graph::Graph& graph, NodeId number);

// --- nests ---
// Of kMap and kReduce.
Result<GroupNest> nest_of(const GroupContext& context);
// The coordinate that is the fastest in memory, of those that are not always 0.
std::optional<Expr> fastest_of(const Grouping& grouping, const Step& load);
// The fastest axis of what it writes or reads, in the order it has in memory, comes last.
void order_axes(const GroupContext& context, GroupNest& group);
// Over such a domain, without steps.
GroupNest empty_nest(const graph::Graph& graph, std::vector<Expr> domain, std::span<const int64_t> reduced);
// Neighbouring axes that all places read as one become one.
void merge_axes(GroupNest& group);

// --- the forms ---
Result<WrittenKernel> write_map(const GroupContext& context, GroupNest group, std::string name = "");
Result<WrittenKernel> write_reduce(const GroupContext& context, GroupNest group);
// A reduction of few results: parts of each by programs of their own, then the parts.
Result<WrittenGroup> write_reduce_in_parts(const GroupContext& context, GroupNest group);
Result<WrittenKernel> write_dot(const GroupContext& context);
Result<WrittenKernel> write_attention(const GroupContext& context);
// Whether a node is an attention that write_attention() has a kernel for: of floats of up to 32 bits but f8, of heads
// whose widths are known and at most 256.
bool has_attention_kernel(const graph::Graph& graph, const graph::Body& body, const graph::Node& node);
// Whether the body multiplies its queries and keys elsewhere too, as a gradient does, which wants the weights.
bool shares_scores(const graph::Body& body, const graph::Node& attention);
// Of a group whose root is_cat_of_many.
Result<WrittenGroup> write_cat(const GroupContext& context);
// One op that has kernels of its own.
Result<WrittenGroup> write_scan(const GroupContext& context);
Result<WrittenGroup> write_scatter(const GroupContext& context);
Result<WrittenGroup> write_order(const GroupContext& context);
Result<WrittenGroup> write_bag(const GroupContext& context);
Result<WrittenGroup> write_histogram(const GroupContext& context);
Result<WrittenGroup> write_tile_kernel(const GroupContext& context);

// --- kernels beside those of an op ---
// The elements of one tensor, cast, in another one of its shape; `from` is a value of the graph or a temporary, whose
// type is given.
Result<WrittenKernel> write_copy(const GroupContext& context, ValueId from, const graph::TensorType& type, ValueId to,
                                 ElementType element);
// A value of the graph in another order of its axes.
Result<WrittenKernel> write_reordered(const GroupContext& context, ValueId copy);
// Zeros.
Result<WrittenKernel> write_zeros(const GroupContext& context, ValueId to, const graph::TensorType& type);

// --- parts of kernels ---

// For GPUs, of a kernel whose programs each go along one line, what is reduced of the group, block by block as its
// constexpr `block` says: where lines are long and too few to keep a device busy, what counts is how often a program
// waits for memory.
void set_long_lines(dsl::Kernel& kernel, const std::string& block, const GroupNest& group);

// What a kernel that computes each element by itself may do in place.
std::vector<std::pair<ValueId, ValueId>> in_place_pairs(const GroupNest& group, std::span<const StepId> wanted);

// The steps that the stores and anchors need.
std::vector<bool> live_steps(const Nest& nest, std::span<const StepId> wanted);

// Parameters for all that the live steps read, the stores write and the expressions mention, then Consts.
struct ConstParam {
  std::string name;
  int64_t value;
};
struct Signature {
  std::vector<KernelArgument> arguments;
  std::vector<dsl::NamedParam> params;
  size_t first_const = 0;

  KernelArguments bind(const dsl::TracedParams& traced) const;
};
// `numbers`: further expressions over dims.
Signature signature_of(const Nest& nest, std::span<const Stored> stores, std::span<const StepId> wanted,
                       std::span<const ConstParam> consts, std::span<const Expr> numbers = {});

// "exp+add": the ops of the group, for people and profilers.
std::string group_name(const graph::Graph& graph, const Group& group, const Grouping& grouping, uint32_t number);

// The least power of two that is not below n, at most `most`; `most` where n is not known.
int64_t block_for(const Expr& extent, int64_t most);

// Places of programs along axes, the last one the fastest.
class ProgramAxes {
 public:
  // So many steps along each axis.
  void add(lang::Value count) { counts_.push_back(std::move(count)); }
  // Sets the grid to all of them, and gives the place of this program along each axis, i64.
  std::vector<lang::Value> places();

 private:
  std::vector<lang::Value> counts_;
};

}  // namespace kiln::planner
