// Kernels of any number of ops, each family of one kind: what grows faster than the kernel shows here.
#pragma once

#include <span>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"

namespace kiln::growth {

// Every kernel takes `x: ptr<f32> readonly`, `y: ptr<f32>`, `n: i32`, or the same of i32, in a grid of one program; it
// reads and writes some first elements of both, at most `elements(count)`.
struct Family {
  const char* name;
  // With `count` ops of its kind, or of the nested ones regions in each other.
  Result<dsl::Kernel> (*kernel)(int count);
  int most = 0;  // the largest count that the language allows, 0: no other limit than the number of ops
  int64_t elements_each = 0;
  bool is_int = false;   // x and y are i32
  int tested = 1000;     // the count of the test, less where each op takes milliseconds
  bool is_exact = true;  // whatever computes it gives the same bits, where x holds small ints and n is small
};

std::span<const Family> families();
// Null: there is none of this name.
const Family* find_family(const char* name);

inline constexpr int kBlock = 64;  // elements of a tile
inline int64_t elements(const Family& family, int count) { return kBlock + family.elements_each * count; }

}  // namespace kiln::growth
