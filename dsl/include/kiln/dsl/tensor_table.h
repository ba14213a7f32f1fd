// Tables for kernels that take many tensors in one launch (kernels/many.h): where the tensors lie, and which part of
// them each program has. The tensors may be allocated separately.
//
// A pointer to memory of its own for each tensor would be no parameter. An array of tensors, say all gradients, is one
// pointer instead, its first tensor's, and how many elements behind it each of the others begins. Nothing checks these
// places: memory that a table names must be there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::dsl {

// One array of each tensor: their weights, their gradients. Its base, which the kernel takes, is the first address.
struct TensorArray {
  int64_t element_bytes = 0;
  std::span<const void* const> addresses;  // by tensor, of host or device memory; they are not read
};

struct TensorTable {
  std::vector<int64_t> tensors;  // [tensors, 1 + arrays]: elements of the tensor, then where it begins in each array
  std::vector<int32_t> chunks;   // [programs, 2]: a tensor, and which chunk of it
  std::vector<int32_t> firsts;   // [tensors + 1]: the first program of each tensor, then the number of programs
  int32_t programs = 0;
  // What the places of all tensors are a multiple of, in elements: 1 to 16, a power of two. The constant ALIGN of a
  // kernel may be that or a divisor, with which GPUs move several elements at once.
  int64_t align = 1;
};

// For tensors of `lengths` elements, cut into chunks of `chunk`. An error names the tensor or array: lengths that are
// negative, an array of another number of tensors, an address that is no whole number of elements from its base, more
// than 2^31 - 1 chunks. Thread-safe.
Result<TensorTable> tensor_table(std::span<const int64_t> lengths, std::span<const TensorArray> arrays, int32_t chunk);

}  // namespace kiln::dsl

namespace kiln {
using dsl::tensor_table;
using dsl::TensorArray;
using dsl::TensorTable;
}  // namespace kiln
