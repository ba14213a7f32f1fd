// GraphBuilder: adds nodes to a graph, typed by the rules, each once. What passes and readers make graphs with; the C++
// functions of tensor.h go through it too.
//
// Pure nodes of one op, operands and attributes are one node (hash-consing), so that common subexpressions never come
// to be; operands of a commuting op may stand in either order. Not thread-safe; a graph under construction belongs to
// one thread.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

class GraphBuilder {
 public:
  // An empty graph with an open main body.
  explicit GraphBuilder(std::string name);
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;
  // Goes on with the dims, types, bodies and kernels of a graph; the main body begins anew, empty, with its name.
  static GraphBuilder rewrite(const Graph& graph);

  // Goes on behind the graph's own nodes, which keep their numbers. Outputs and donations are set anew. Inputs that are
  // added have values behind the others until take().
  static GraphBuilder extend(const Graph& graph);

  // The graph so far. Its main body is complete only once outputs are set.
  const Graph& graph() const { return graph_; }
  const Body& body() const { return graph_.bodies[open_.back()]; }  // the innermost open one
  const TensorType& type(ValueId value) const { return graph_.types[body().values[value].type]; }

  // --- bodies ---
  // Opens a body beside; nodes go to it until it is closed. The name is made unique by a suffix.
  void open_body(std::string name);
  // Ends it, and numbers its inputs' values first. Its number.
  BodyId close_body();
  // Of a closed body: which inputs its outputs need.
  std::vector<bool> used_inputs(BodyId body) const;
  // Removes from a closed body the nodes that no output needs, and the inputs that `keep` does not name, which must not
  // be used. Before a node runs it.
  void prune_body(BodyId body, const std::vector<bool>& keep);
  bool in_main() const { return open_.size() == 1; }
  // Copies a body of another graph, and those it names, whose dims are merged by name (an error where their ranges
  // differ, and where a kernel of a name that is there already is another one). Its number here.
  Result<BodyId> import_body(const Graph& from, BodyId body);
  // Adds the nodes of a body to the open one with values for its inputs. Values of its outputs.
  Result<std::vector<ValueId>> inline_body(const Graph& from, BodyId body, std::span<const ValueId> inputs);

  // --- values and nodes ---
  // The number of a dim; an error where one of this name has another range.
  Result<uint32_t> add_dim(const DimInfo& dim);
  Result<ValueId> add_input(std::string name, TensorType type, Location loc = {});
  // What a body sees of outside: another input of it, behind the others. The name is made unique by a suffix.
  struct Captured {
    std::string name;
    TypeId type = 0;
    Location loc;
  };
  ValueId add_capture(BodyId open_body, Captured captured);
  // Of a body that is closed; numbers its values anew.
  void add_captures_to_closed(BodyId body, std::vector<Captured> captured);
  Result<void> add_output(std::string name, ValueId value);
  // The output of this number takes over the input's memory.
  Result<void> donate(uint32_t input, uint32_t output);
  // Adds a node, or finds its equal. Attributes left out at the end take their defaults. The results' ids are
  // neighbours: [first, first + count). Error: the rule's, without location.
  struct Results {
    ValueId first;
    uint32_t count;
  };
  Result<Results> add(TensorOp op, std::span<const ValueId> operands, AttrList attrs = {}, Location loc = {});
  // The same of attributes that are complete and in the graph already, and of all operands. Nodes of another graph are
  // copied so, whose attributes are few beside them.
  Result<Results> add_node(TensorOp op, std::span<const ValueId> operands, AttrsId attrs, Location loc);
  // A node of the graph that this one rewrites or extends, on operands of the types that it has there: its results have
  // their types too, which are not inferred again.
  Results copy_node(const Body& from, const Node& node, std::span<const ValueId> operands, AttrsId attrs);
  // A body that is whole, of types and attributes of this graph; its name is made unique.
  BodyId add_body(Body body);
  AttrsId add_attrs(AttrList attrs);
  // Of an op of one result.
  Result<ValueId> add_one(TensorOp op, std::span<const ValueId> operands, AttrList attrs = {}, Location loc = {});
  Result<uint32_t> add_kernel(TileKernel kernel);
  void set_kernel_gradient(uint32_t kernel, BodyId gradient);
  // The number of a file for a Location, plus one.
  uint32_t add_file(std::string_view name);
  void set_name(ValueId value, std::string name);  // made unique by a suffix

  // The graph; the builder is empty afterwards. All bodies but the main one must be closed.
  Graph take();

 private:
  struct Index;  // of types, attribute lists, nodes and names already there

  Body& open() { return graph_.bodies[open_.back()]; }

  Graph graph_;
  std::vector<BodyId> open_;
  std::unique_ptr<Index> index_;
};

}  // namespace kiln::graph
