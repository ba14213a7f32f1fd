// A plan in a page: its launches as boxes, one below the other.
#pragma once

#include <string>

#include "kiln/graph/draw.h"

namespace kiln::graph {

// Elements of HTML: what comes in, the launches, what goes out. Launches that run again and again stand in a frame.
std::string plan_boxes(const PlanDrawing& compiled);
// Entries of the script's object of facts, by a launch's id, and its list of kernels.
std::string launch_facts(const PlanDrawing& compiled);
std::string kernel_texts(const Plan& plan);

// A string of JavaScript that a script element may hold.
std::string script_string(const std::string& text);

}  // namespace kiln::graph
