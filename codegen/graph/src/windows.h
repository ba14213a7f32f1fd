// Which nodes read windows: a filter that is written out is a sum of slices of one value.
#pragma once

#include "groups.h"

namespace kiln::planner {

// Of which each element is read so often that what takes many steps is read from memory.
constexpr uint32_t kManySlices = 4;

// By value: how many slices there are of it, through views and pads.
std::vector<uint32_t> slices_of_values(const graph::Graph& graph);
// By node that is in no group: how many slices each of its elements is computed of. Of the parts of a cat an element
// has one.
std::vector<uint32_t> taps_of_nodes(const graph::Graph& graph, const Grouping& grouping);

}  // namespace kiln::planner
