// What holds for every graph that the verifier accepts, wherever it came from.
#pragma once

#include "kiln/graph/ir.h"

namespace kiln::fuzz {

// Ends the process where one of these does not hold:
//   what print writes parses, to a graph of the same key that prints to a text which parses to itself;
//   encode → decode → encode gives the same bytes;
//   the canonical form is sound, and a second time changes nothing;
//   it is drawn.
void check_sound_graph(const graph::Graph& graph);

}  // namespace kiln::fuzz
