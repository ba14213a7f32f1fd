// Maximum flow by Dinic's algorithm (1970): breadth-first levels, then blocking flows along them. No recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::graph {

class MaxFlow {
 public:
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  explicit MaxFlow(size_t nodes) : first_(nodes, kNoEdge) {}
  void add_edge(uint32_t from, uint32_t to, int64_t capacity);
  // The flow. Each path from source to sink must have an edge below kInfinite.
  int64_t run(uint32_t source, uint32_t sink);
  // After run(): by node, whether it is on the source's side of the least cut that is nearest to the source.
  std::vector<bool> source_side(uint32_t source) const;

 private:
  static constexpr uint32_t kNoEdge = ~uint32_t{0};
  struct Edge {
    uint32_t to;
    uint32_t next;  // of the same node
    int64_t left;   // what can still flow; the reverse edge is the neighbour (index ^ 1)
  };
  bool find_levels(uint32_t source, uint32_t sink);
  int64_t blocking_flow(uint32_t source, uint32_t sink);

  std::vector<uint32_t> first_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> level_, current_;
};

}  // namespace kiln::graph
