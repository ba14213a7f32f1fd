// Who does the work of a quickstart case in this process: oneDNN, and plain C++. Their data is their own.
#pragma once

#include <string>
#include <vector>

#include "../gemm_peers.h"
#include "quickstart/cases.h"

namespace kiln::bench {

// The numbers of a shape's text: "4×7 3/2" is {4, 7, 3, 2}.
std::vector<int64_t> numbers_in(const std::string& shape);

// oneDNN's primitives, on all OpenMP threads. A chain comes as one primitive an op, and as one primitive ("onednn
// fused") where it can fuse them. None without its headers of version 2 at build time, or where it lacks an op.
std::vector<Peer> onednn_peers(const quickstart::Case& test);
// "oneDNN 2.6.3", or why it is absent.
std::string onednn_version();

// Loops and algorithms of the standard library, for what no other library has.
std::vector<Peer> plain_peers(const quickstart::Case& test);

}  // namespace kiln::bench
