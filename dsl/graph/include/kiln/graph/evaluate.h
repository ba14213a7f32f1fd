// The evaluator: what a graph means, executed. Plain loops, each value rounded as its type says; the oracle of all that
// compiles graphs. Not fast; thread-safe.
//
// What the op table leaves open is so here. One element at a time is as tiles have it (kiln/dsl/scalar_math.h): f16,
// bf16 and f8 compute in f32, functions in one precision more, and round once. So do reductions, scans, scatters and
// windows: they accumulate f16, bf16 and f8 in f32, f32 in f32. Sums of reductions and windows are pairwise; scans,
// scatters and the transposes of windows go in order. dot and conv take one fused step a product, in order. resize
// weighs in f64. A custom reduction begins with its init. What a kernel does not write is 0.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// A tensor in memory: extents and strides in elements (any sign, 0 repeats), elements of `element` in memory's format.
// Borrows its bytes unless made by `own`.
struct Array {
  ElementType element = ElementType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  const std::byte* data = nullptr;  // of the element at index 0 of each axis
  std::shared_ptr<std::vector<std::byte>> storage;

  int64_t count() const;
  // Element at a row-major place, as bits and as a number.
  uint64_t bits(int64_t place) const;
  double number(int64_t place) const;
};
// Contiguous, of zeros, with memory of its own; set_bits writes to such.
Array own(ElementType element, std::vector<int64_t> shape);
void set_bits(Array& array, int64_t place, uint64_t bits);
// Of numbers in row-major order, rounded to the type.
Array array_of(ElementType element, std::vector<int64_t> shape, const std::vector<double>& numbers);

struct EvaluateOptions {
  bool check_indices = true;  // an index outside is an error that names node and place, instead of unspecified
  bool wide = false;  // floats are computed and kept in f64 whatever their type: what rounding costs is seen beside it
  int64_t memory_limit = int64_t{8} << 30;  // bytes; more is an error before anything is computed
};
// Of a graph that verifies; composites are evaluated by their decompositions. Sizes of dims are what the inputs'
// extents say where they mention one unknown dim linearly; dims that none says are given by name. Outputs in order,
// contiguous, with memory of their own. Errors name the input, its shape and what the graph declares, or the node with
// its source line: an index outside, bodies inside bodies deeper than 100, more memory than the limit.
Result<std::vector<Array>> evaluate(const Graph& graph, std::span<const Array> inputs,
                                    const std::map<std::string, int64_t>& sizes = {},
                                    const EvaluateOptions& options = {});

}  // namespace kiln::graph
