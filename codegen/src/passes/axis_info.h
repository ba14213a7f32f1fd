// What is known of values before a kernel runs: ranges of ints, multiples, and how the elements of a tile follow each
// other along its last axis.
//
//   %pid = program_id {axis = 0}                0…2^31-2
//   %c   = constant {value = 64, type = i32}    64…64, a multiple of 64
//   %o   = mul %pid, %c                         a multiple of 64
//   %s   = splat %o {shape = [64]}              a multiple of 64, constant in groups of 64
//   %r   = arange {start = 0, end = 64}         0…63, contiguous in groups of 64, the first a multiple of 64
//   %i   = add %s, %r                           contiguous in groups of 64, the first a multiple of 64
//
// Scheme. One walk in program order; the value of a loop's argument is what it starts with joined with what the region
// yields, walked again until nothing changes and widened meanwhile. `assume` narrows a value from there to the end of
// its region. Beside its range a value has a *base*: a scalar that it differs from by a known amount. The index of
// `for %k = 0 to %n step 16`, %n a multiple of 16, is at most %n - 16; so `%k + arange(0, 16) < %n` is known to hold.
#pragma once

#include <vector>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/wide.h"

namespace kiln::codegen {

// Every claim holds for every element, and for values that are never computed anything may be claimed.
struct AxisInfo {
  dsl::Wide low = 0, high = 0;  // ints lie in low…high
  int64_t multiple_of =
      1;  // what the first of each group of `contiguous` is a multiple of (of pointers: in bytes); 0: is 0
  int64_t contiguous = 1;             // groups of so many neighbours along the last axis count up by one (element)
  int64_t constant = 1;               // groups of so many neighbours are equal
  dsl::ValueId base = dsl::kNoValue;  // a scalar int that the value differs from by base_low…base_high
  dsl::Wide base_low = 0, base_high = 0;

  // The value of all elements, if there is but one.
  bool is_known() const { return low == high; }
  bool operator==(const AxisInfo&) const = default;
};

enum class Wrap : uint8_t {
  kExact,  // int arithmetic wraps around
  kIndex,  // it is taken not to, as docs/reference/ops.md has it of indices that reach memory
};

// By value. Of ops in loops: what holds in every iteration. The ranges of floats and pointers mean nothing.
std::vector<AxisInfo> axis_info(const dsl::Kernel& kernel, Wrap wrap);

// What every group of `group` neighbours begins with a multiple of; `step` is the distance of contiguous neighbours.
int64_t multiple_of_groups(const AxisInfo& info, int64_t group, int64_t step = 1);

}  // namespace kiln::codegen
