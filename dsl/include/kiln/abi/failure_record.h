// How a kernel with checks on a GPU tells the host what failed: a record in device memory, one a loaded kernel
// (docs/reference/artifact.md, "Checks on a GPU"). The compiler writes code for it by these offsets, the client reads
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/abi/cpu_abi.h"

namespace kiln::abi {

// A program that fails sets `claimed` from 0 to 1 atomically; who succeeds writes the rest, `code` last.
struct FailureRecord {
  uint32_t claimed;
  uint32_t code;       // KILN_ASSERT_FAILED or KILN_OUT_OF_BOUNDS; 0: nothing failed
  uint32_t check;      // number in `checks` of the artifact's metadata
  uint32_t parameter;  // whose buffer the index is outside of, or KILN_NO_PARAMETER
  uint32_t program[3];
  uint32_t reserved;
  uint64_t lane;  // as in kiln_failure
  int64_t index;
  int64_t extent;  // of the parameter's buffer
  uint64_t reserved_too;
};

// Compiled code has these offsets in it: they stay.
static_assert(offsetof(FailureRecord, claimed) == 0 && offsetof(FailureRecord, code) == 4);
static_assert(offsetof(FailureRecord, check) == 8 && offsetof(FailureRecord, parameter) == 12);
static_assert(offsetof(FailureRecord, program) == 16 && offsetof(FailureRecord, lane) == 32);
static_assert(offsetof(FailureRecord, index) == 40 && offsetof(FailureRecord, extent) == 48);
static_assert(sizeof(FailureRecord) == 64);

}  // namespace kiln::abi
