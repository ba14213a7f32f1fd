// Random kernels: verified, in bounds, without races between programs, and with results that the language fixes up to
// what facts.h says. The same seed and options give
// the same case.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "random/case.h"

namespace kiln::random_kernel {

struct Options {
  int max_ops = 40;  // calls of op generators; each adds a few ops of its own
  int max_depth = 3;
  int max_rank = 5;
  int64_t max_extent = 130;
  int64_t max_elements = 1500;  // of a tile
  bool symbolic = true;         // some extents are constexprs; else the kernel has none
  bool facts = true;            // some cases have facts of their arguments, and kernels `assume`
  bool aligned_buffers = true;  // buffers will begin at multiples of 16 bytes, so a fact may say so
  // How many bits of a sum a backend's units for f8 keep (docs/reference/ops.md, `dot`), for the generator and for
  // comparisons.
  int f8_sum_bits = 24;
  // Element types of data; i1, i32 and i64 are always there. Empty: all.
  std::vector<dsl::ElementType> elements = {};
  // What a backend cannot compile yet is not generated. The op has its operands and attributes, but neither results nor
  // regions. Not asked for what every kernel is built from: program_id, num_programs, constant, arange, splat,
  // broadcast, expand_dims, addptr, load, store, and add, mul, sub, rem, cmp, and, cast of ints and i1.
  std::function<bool(const dsl::Kernel&, const dsl::Op&)> allowed = {};
};

Case generate(uint64_t seed, const Options& options = {});

// What the generator has for each op of the table, and why it has nothing for some.
bool is_generated(dsl::OpCode code);
const std::map<dsl::OpCode, std::string>& never_generated();

}  // namespace kiln::random_kernel
