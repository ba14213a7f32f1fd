// In which order the axes of values lie in memory. What the caller sees is row-major; in between the planner may
// choose: convolutions read channels side by side.
#pragma once

#include "groups.h"

namespace kiln::planner {

// Chooses orders for the values that the groups write and read, and copies of inputs and constants in another order.
// Leaves all as it is where no product loops over what it contracts, and no filter is written out.
void choose_orders(const graph::Graph& graph, std::string_view target, Grouping& grouping);

}  // namespace kiln::planner
