// Bounds on a kernel, the same for text, bytes and verifier: what they let through is safe to recurse over.
#pragma once

#include <cstddef>

namespace kiln::dsl {

inline constexpr int kMaxRegionDepth = 64;
inline constexpr int kMaxExprDepth = 64;
inline constexpr size_t kMaxOps = 1u << 18;
inline constexpr size_t kMaxListed = 4096;  // parameters, constexprs, space axes, values of an axis
// What parameters may take of an artifact's 64 KiB of metadata (docs/reference/artifact.md): with their names, and so
// much each.
inline constexpr size_t kMaxParamBytes = 60'000, kParamBytes = 48;
// Expressions multiply out to polynomials; these keep a hostile one from exploding.
inline constexpr size_t kMaxTerms = 256;
inline constexpr size_t kMaxAtoms = 16;
inline constexpr size_t kMaxExprSize = 4096;  // nodes, counted as often as they are reached: products share theirs
inline constexpr size_t kMaxShape = 64;       // extents in a list; a type's rank is checked by the type rules

}  // namespace kiln::dsl
