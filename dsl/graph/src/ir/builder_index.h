// What a GraphBuilder has already: types, attribute lists and nodes by their contents, so that each is there once.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/node_table.h"
#include "kiln/graph/builder.h"

namespace kiln::graph {

// Names that are taken.
class Names {
 public:
  // False when it is taken.
  bool add(const std::string& name) { return taken_.insert(name).second; }
  // The name, or with a suffix one that is not taken.
  std::string add_unique(std::string name);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, uint32_t> suffixes_;  // the last one given: of many alike, none is tried twice
};

struct GraphBuilder::Index {
  IdTable types, attr_lists;
  Signatures signatures;
  std::unordered_map<std::string, uint32_t> files;
  struct OpenBody {
    NodeTable nodes;
    Names names;  // of inputs and values
    Names outputs;
    std::map<uint32_t, uint32_t> donated;  // output → input
  };
  std::vector<OpenBody> open;
  Names bodies;

  // The number of a type; an error where none may be like that.
  Result<TypeId> type(Graph& graph, TensorType type);
  AttrsId attrs(Graph& graph, AttrList attrs);
  // The numbers of the results' types of an op, in `results`.
  Result<void> infer(Graph& graph, TensorOp op, AttrsId attrs);
  std::optional<Results> find(const Body& body, const NodeTable::Key& key, TensorOp op,
                              std::span<const ValueId> operands, AttrsId attrs) const;
  // The node with its operands, and results of the types in `results`.
  Results append(Body& body, const NodeTable::Key& key, Node node, std::span<const ValueId> node_operands);
  std::vector<TypeId> operands, results;  // of the node that is added; here so that their memory stays
};

}  // namespace kiln::graph
