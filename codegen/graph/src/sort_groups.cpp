#include "groups.h"

namespace kiln::planner {

using graph::kNone;

void sort_groups(Grouping& grouping) {
  const size_t count = grouping.groups.size();
  std::vector<NodeId> last(count);
  for (NodeId n = 0; n < grouping.group_of.size(); ++n) {
    if (grouping.group_of[n] != kNone) last[grouping.group_of[n]] = n;
  }
  std::vector<uint32_t> order, place(count, kNone);
  std::vector<uint8_t> state(count);
  std::vector<uint32_t> by_node(count);
  for (uint32_t i = 0; i < count; ++i) by_node[i] = i;
  std::sort(by_node.begin(), by_node.end(), [&](uint32_t a, uint32_t b) { return last[a] < last[b]; });
  const std::function<void(uint32_t)> visit = [&](uint32_t group) {
    if (state[group] != 0) return;
    state[group] = 1;
    for (const uint32_t other : grouping.groups[group].needs) visit(other);
    place[group] = static_cast<uint32_t>(order.size());
    order.push_back(group);
  };
  for (const uint32_t group : by_node) visit(group);
  std::vector<Group> sorted;
  for (const uint32_t group : order) {
    sorted.push_back(std::move(grouping.groups[group]));
    std::set<uint32_t> needs;
    for (const uint32_t other : sorted.back().needs) needs.insert(place[other]);
    sorted.back().needs = std::move(needs);
  }
  grouping.groups = std::move(sorted);
  for (uint32_t& group : grouping.group_of) {
    if (group != kNone) group = place[group];
  }
}

}  // namespace kiln::planner
