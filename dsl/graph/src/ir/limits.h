// Bounds on a graph, the same for text and bytes: what they let through is read in time and memory linear in its size.
#pragma once

#include <cstddef>

namespace kiln::graph {

inline constexpr size_t kMaxText = size_t{1} << 30;   // bytes; a constant's elements are written out
inline constexpr size_t kMaxNodes = size_t{1} << 22;  // of all bodies together
inline constexpr size_t kMaxOperands = 65'536;        // of one node
inline constexpr size_t kMaxDims = 4096;
inline constexpr size_t kMaxKernels = 4096;
inline constexpr size_t kMaxCodes = 64;     // of the user's own, of one kernel
inline constexpr size_t kMaxListed = 4096;  // entries of an attribute that is a list; arguments of a kernel
inline constexpr size_t kMaxName = 4096;    // bytes

}  // namespace kiln::graph
