#include "differentiate/max_flow.h"

#include <algorithm>

namespace kiln::graph {

void MaxFlow::add_edge(uint32_t from, uint32_t to, int64_t capacity) {
  const auto id = static_cast<uint32_t>(edges_.size());
  edges_.push_back({to, first_[from], capacity});
  edges_.push_back({from, first_[to], 0});
  first_[from] = id;
  first_[to] = id + 1;
}

bool MaxFlow::find_levels(uint32_t source, uint32_t sink) {
  level_.assign(first_.size(), kNoEdge);
  level_[source] = 0;
  std::vector<uint32_t> queue = {source};
  for (size_t at = 0; at < queue.size(); ++at) {
    for (uint32_t id = first_[queue[at]]; id != kNoEdge; id = edges_[id].next) {
      const Edge& edge = edges_[id];
      if (edge.left == 0 || level_[edge.to] != kNoEdge) continue;
      level_[edge.to] = level_[queue[at]] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[sink] != kNoEdge;
}

int64_t MaxFlow::blocking_flow(uint32_t source, uint32_t sink) {
  current_ = first_;
  int64_t total = 0;
  std::vector<uint32_t> path;  // edges
  uint32_t at = source;
  while (true) {
    if (at == sink) {
      int64_t least = kInfinite;
      for (const uint32_t id : path) least = std::min(least, edges_[id].left);
      for (const uint32_t id : path) {
        edges_[id].left -= least;
        edges_[id ^ 1].left += least;
      }
      total += least;
      // Go on from the first edge that is full.
      size_t full = 0;
      while (full < path.size() && edges_[path[full]].left > 0) ++full;
      if (full < path.size()) {
        at = edges_[path[full] ^ 1].to;
        path.resize(full);
      }
      continue;
    }
    uint32_t& id = current_[at];
    while (id != kNoEdge && (edges_[id].left == 0 || level_[edges_[id].to] != level_[at] + 1)) id = edges_[id].next;
    if (id != kNoEdge) {
      path.push_back(id);
      at = edges_[id].to;
      continue;
    }
    if (at == source) return total;
    level_[at] = kNoEdge;  // a dead end
    at = edges_[path.back() ^ 1].to;
    path.pop_back();
  }
}

int64_t MaxFlow::run(uint32_t source, uint32_t sink) {
  int64_t total = 0;
  while (find_levels(source, sink)) total += blocking_flow(source, sink);
  return total;
}

std::vector<bool> MaxFlow::source_side(uint32_t source) const {
  std::vector<bool> side(first_.size(), false);
  side[source] = true;
  std::vector<uint32_t> queue = {source};
  for (size_t at = 0; at < queue.size(); ++at) {
    for (uint32_t id = first_[queue[at]]; id != kNoEdge; id = edges_[id].next) {
      if (edges_[id].left == 0 || side[edges_[id].to]) continue;
      side[edges_[id].to] = true;
      queue.push_back(edges_[id].to);
    }
  }
  return side;
}

}  // namespace kiln::graph
